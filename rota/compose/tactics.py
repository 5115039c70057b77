"""Tactics by name."""

from collections.abc import Callable, Mapping
from typing import Any

from rota.core.tactics import Tactics
from rota.errors import NameUnknown
from rota.tactics.defragment import Defragment
from rota.tactics.migrate import Migrate
from rota.tactics.pack import Pack

TACTICS: Mapping[str, Callable[[], Any]] = {"pack": Pack, "defragment": Defragment, "migrate": Migrate}


def make_tactics(names: str) -> Tactics:
    """From names with commas between them."""
    given = [name.strip() for name in names.split(",") if name.strip()]
    for name in given:
        if name not in TACTICS:
            raise NameUnknown("tactic", name, TACTICS, hint="--tactics pack,defragment")
    return Tactics(**{name: TACTICS[name]() for name in given})
