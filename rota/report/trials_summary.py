"""Trials of tactics in a run: their number, their verdicts, and the measurements of each pair."""

from dataclasses import asdict, dataclass
from typing import Any

from rota.core.state.beliefs import Beliefs
from rota.model.trial import TrialVerdict


@dataclass(frozen=True, slots=True)
class PairSummary:
    """Two kinds of jobs on the same GPUs, averaged over all their trials."""

    first: str
    """Profile of the first job; # and its number if it has no profile."""
    second: str
    accelerator: str
    gpus: int
    times: int
    """Number of verdicts on the pair."""
    first_rate: float
    """Mean of the first job's colocated rate / its exclusive rate."""
    second_rate: float
    gain: float
    """Mean of how much more the two do together than in turns."""
    spread: float
    """Standard deviation of the gain; 0 after a single verdict."""


@dataclass(frozen=True, slots=True)
class TrialsSummary:
    """All trials of a run."""

    trials: int
    kept: int
    reverted: int
    aborted: int
    """Trials that ended before they were measured."""
    open: int
    """Trials without a verdict when the run ended."""
    pairs: tuple[PairSummary, ...]
    """Pairs, those with the most verdicts first."""

    @classmethod
    def of(cls, known: Beliefs) -> "TrialsSummary":
        kept, reverted, aborted = (
            known.verdicts.get(verdict.value, 0) for verdict in (TrialVerdict.KEPT, TrialVerdict.REVERTED, TrialVerdict.ABORTED)
        )
        pairs = [
            PairSummary(*key, seen.times, seen.first, seen.second, seen.gain, seen.spread) for key, seen in known.pairs.items()
        ]
        pairs.sort(key=lambda pair: (-pair.times, -pair.gain, pair.first, pair.second, pair.accelerator, pair.gpus))
        return cls(known.trials_begun, kept, reverted, aborted, len(known.trials), tuple(pairs))

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "pairs": [asdict(pair) for pair in self.pairs]}

    def __str__(self) -> str:
        parts = [(self.kept, "kept"), (self.reverted, "reverted"), (self.aborted, "aborted"), (self.open, "open")]
        counts = ", ".join(f"{count:,} {word}" for count, word in parts if count)
        return f"{self.trials:,} trial{'' if self.trials == 1 else 's'}" + (f": {counts}" if counts else "")
