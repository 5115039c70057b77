"""Tactics by name."""

from collections.abc import Callable, Mapping
from typing import Any

from rota.core.tactics import Tactics
from rota.errors import NameUnknown
from rota.tactics.grow import Grow
from rota.tactics.pack import Pack

TACTICS: Mapping[str, Callable[..., Any]] = {"pack": Pack, "grow": Grow}


def make_tactics(names: str) -> Tactics:
    """From names with commas between them."""
    made = {}
    for given in names.split(","):
        name, _, option = given.strip().partition(":")
        if not name:
            continue
        if name not in TACTICS:
            raise NameUnknown("tactic", name, TACTICS, hint="--tactics pack")
        key, _, number = option.partition("=")
        made[name] = TACTICS[name](**({key: float(number)} if key else {}))
    return Tactics(**made)
