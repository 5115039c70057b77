"""Words that a shell proposes for arguments and flags.

A shell runs these functions while a user types, so they are silent and short: what cannot be found in a second is not proposed.
Some shells evaluate the proposed text, and jobs are named by other users, so only plain words are proposed.
"""

import os
import re
from collections.abc import Iterable
from typing import Any

import typer

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_ROTA_COMPLETE"
"""Environment variable by which a shell asks the command-line library for words."""
ANSWER_SECONDS = 1.0
"""Time limit for the scheduler's answer, in seconds."""
MAX_JOBS = 1000
_PLAIN = re.compile(r"[A-Za-z0-9][\w.@%+-]*", re.ASCII)

Words = list[str | tuple[str, str]]
"""Words, with a description where there is one."""


def jobs(ctx: typer.Context, incomplete: str) -> Words:
    """Propose unfinished jobs: by name, or by id if a digit was typed or the name is not a plain word of one job."""
    from rota.errors import RotaError
    from rota.wire.client import Client
    from rota.wire.find_scheduler import find_scheduler

    try:
        found = find_scheduler(ctx.params.get("home"))
        client = Client(found.urls, found.token, ca_file=found.ca_file, answer_seconds=ANSWER_SECONDS)
        rows = client.page(limit=MAX_JOBS).jobs
    except (RotaError, OSError):
        return []
    given = set(ctx.params.get("jobs") or ())
    names = [row.name for row in rows]
    words_found: Words = []
    for row in rows:
        by_name = _PLAIN.fullmatch(row.name) and names.count(row.name) == 1
        words = [row.name] if by_name else [str(row.id)]
        words += [str(row.id)] * (by_name is not None and incomplete.isdecimal())
        words_found += [(word, row.phase) for word in dict.fromkeys(words) if word.startswith(incomplete) and word not in given]
    return words_found


def policies(incomplete: str) -> Words:
    """Propose policies; after `A+`, placers."""
    from rota.compose.registry import PLACER_REGISTRY, POLICY_REGISTRY

    policy, plus, _ = incomplete.partition("+")
    if plus and _PLAIN.fullmatch(policy):
        return _beginning([f"{policy}+{placer}" for placer in PLACER_REGISTRY.names()], incomplete)
    return _beginning(POLICY_REGISTRY.names(), incomplete)


def placers(incomplete: str) -> Words:
    from rota.compose.registry import PLACER_REGISTRY

    return _beginning(PLACER_REGISTRY.names(), incomplete)


def policies_and_placers(incomplete: str) -> Words:
    return policies(incomplete) + placers(incomplete)


def presets(incomplete: str) -> Words:
    from rota.compose.presets import PRESETS

    return _beginning(PRESETS, incomplete)


def formats(incomplete: str) -> Words:
    from rota.traces.read_trace import FORMATS

    return _beginning(FORMATS, incomplete)


def outputs(incomplete: str) -> Words:
    from rota.cli.common_flags import SHAPES

    return _beginning(SHAPES, incomplete)


def shells(incomplete: str) -> Words:
    return _beginning(SHELLS, incomplete)


def commands(incomplete: str) -> Words:
    from rota.cli.main import COMMANDS, GROUPS

    return _beginning([*COMMANDS, *GROUPS, "next"], incomplete)


def _beginning(known: Iterable[str], incomplete: str) -> Words:
    return [word for word in known if word.startswith(incomplete)]


FIELDS: dict[str, Any] = {"policy": policies, "placer": placers, "preset": presets, "format": formats}
"""Field of a study -> the words that its flag may have."""


def words_to_complete() -> list[str]:
    """Return the words that a shell has before the one to complete, if it asks for words; else an empty list."""
    if VARIABLE not in os.environ:
        return []
    if "COMP_WORDS" in os.environ:
        words = os.environ["COMP_WORDS"].split()
        typed = int(os.environ.get("COMP_CWORD", "0"))
    else:
        text = os.environ.get("_TYPER_COMPLETE_ARGS", "")
        words = text.split()
        typed = len(words) - (not text.endswith(" "))
    return words[1:typed]
