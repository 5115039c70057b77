"""What tactics tried in a run: how many trials there were, what became of them, and what was seen of each pair."""

from dataclasses import asdict, dataclass
from typing import Any

from rota.core.state.beliefs import Beliefs
from rota.model.trial import TrialVerdict


@dataclass(frozen=True, slots=True)
class PairSummary:
    """Two kinds of jobs on the same GPUs, as all trials of them saw it."""

    first: str
    """A profile; of a job without one, # and its number."""
    second: str
    accelerator: str
    gpus: int
    times: int
    """How often it was judged."""
    first_rate: float
    """Steps per second of the first in company, over those alone; the mean."""
    second_rate: float
    gain: float
    """How much more the two do together than in turns; the mean."""
    spread: float
    """Its standard deviation; 0 where it was judged once."""


@dataclass(frozen=True, slots=True)
class TrialsSummary:
    """All trials of a run."""

    trials: int
    kept: int
    undone: int
    broken_off: int
    """Those that ended before they were measured."""
    open: int
    """Those that were not judged when the run ended."""
    pairs: tuple[PairSummary, ...]
    """Those that were judged most often first."""

    @classmethod
    def of(cls, known: Beliefs) -> "TrialsSummary":
        kept, undone, broken_off = (
            known.verdicts.get(verdict.value, 0) for verdict in (TrialVerdict.KEPT, TrialVerdict.UNDONE, TrialVerdict.BROKEN_OFF)
        )
        pairs = [
            PairSummary(*key, seen.times, seen.first, seen.second, seen.gain, seen.spread) for key, seen in known.pairs.items()
        ]
        pairs.sort(key=lambda pair: (-pair.times, -pair.gain, pair.first, pair.second, pair.accelerator, pair.gpus))
        return cls(known.tried, kept, undone, broken_off, len(known.trials), tuple(pairs))

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "pairs": [asdict(pair) for pair in self.pairs]}

    def __str__(self) -> str:
        parts = [(self.kept, "kept"), (self.undone, "undone"), (self.broken_off, "broken off"), (self.open, "open")]
        told = ", ".join(f"{count:,} {word}" for count, word in parts if count)
        return f"{self.trials:,} trial{'' if self.trials == 1 else 's'}" + (f": {told}" if told else "")
