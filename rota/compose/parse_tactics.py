"""Parse tactics by name, each with its options: `pack`, or `pack:settle_seconds=120,min_gain=0.1`, or `./mine.py:Mine`.

Commas separate both tactics and the options of one tactic. An item with `=` and without a name is another option of the tactic
before it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rota.compose.option_syntax import ParsedName, fit
from rota.compose.registry import TACTIC_REGISTRY
from rota.core.plan.tactic import Tactic, Tactics
from rota.errors import OptionError

NONE = "none"
"""Text that switches off all tactics, including those of the policy itself."""


def make_tactics(text: str) -> Tactics:
    """Return the tactics of a text: names separated by commas, each with or without options."""
    if text.strip() == NONE:
        return Tactics()
    made: dict[type, tuple[Tactic, str]] = {}
    for part in tactic_parts(text):
        spelled = ParsedName.parse(part, "tactic")
        kind = TACTIC_REGISTRY.find(spelled.name)
        if kind in made:
            raise OptionError(
                "given twice.", field="tactics", value=spelled.name, hint="give each tactic once, with all its options"
            )
        made[kind] = fit(kind, spelled.options, spelled.name, hint=TACTIC_REGISTRY.hint), _absolute(part)
    return Tactics(tuple(tactic for tactic, _ in made.values()), tuple(made.values()))


def recorded_tactics(recorded: str | Mapping[str, Any]) -> str:
    """Return the text of the tactics in a journal. Journals of earlier versions have the options of each tactic as values."""
    if isinstance(recorded, str):
        return recorded
    found = []
    for name, tactic in recorded["fields"].items():
        if tactic is not None:
            options = ",".join(f"{option}={value}" for option, value in tactic["fields"].items())
            found.append(f"{name}:{options}")
    return ",".join(found) or NONE


def _absolute(part: str) -> str:
    """Return a tactic in a file with the complete path: a scheduler may start again in another folder."""
    path, colon, rest = part.partition(":")
    return f"{Path(path).resolve()}{colon}{rest}" if path.endswith(".py") else part


def tactic_parts(text: str) -> list[str]:
    """Split `pack:a=1,b=2,grow` into `pack:a=1,b=2` and `grow`."""
    parts: list[str] = []
    for item in filter(None, (each.strip() for each in text.split(","))):
        name, equals, _ = item.partition("=")
        if equals and ":" not in name:
            if not parts or "=" not in parts[-1]:
                before = f"{parts[-1]}:" if parts else "pack:"
                raise OptionError("is not a tactic.", field="tactics", value=item, hint=f"options follow a colon: {before}{item}")
            parts[-1] += f",{item}"
        else:
            parts.append(item)
    return parts
