"""Tactics that are in force. A value, set once."""

from dataclasses import dataclass

from rota.tactics.defragment import Defragment
from rota.tactics.grow import Grow
from rota.tactics.migrate import Migrate
from rota.tactics.pack import Pack


@dataclass(frozen=True, slots=True, kw_only=True)
class Tactics:
    """None of them unless it is named."""

    pack: Pack | None = None
    grow: Grow | None = None
    defragment: Defragment | None = None
    migrate: Migrate | None = None

    def __bool__(self) -> bool:
        return self.pack is not None or self.grow is not None or self.moves

    @property
    def moves(self) -> bool:
        """Whether some of them put running jobs on other GPUs."""
        return self.defragment is not None or self.migrate is not None

    @property
    def rest_seconds(self) -> float:
        """A job that was moved stays where it is for so long."""
        return max((each.rest_seconds for each in (self.defragment, self.migrate) if each is not None), default=0.0)
