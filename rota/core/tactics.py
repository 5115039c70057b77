"""Tactics that are in force. A value, set once."""

from dataclasses import dataclass

from rota.tactics.grow import Grow
from rota.tactics.pack import Pack


@dataclass(frozen=True, slots=True, kw_only=True)
class Tactics:
    """None of them unless it is named."""

    pack: Pack | None = None
    grow: Grow | None = None

    def __bool__(self) -> bool:
        return self.pack is not None or self.grow is not None
