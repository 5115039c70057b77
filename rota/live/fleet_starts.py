"""Launches that no agent has acknowledged: they are noticed each time the core sends them, and told once they are late.

The core sends a launch every few seconds until the job has started, which may take minutes. An agent acknowledges it much sooner:
the attempt is in the inventory that it tells.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rota.live.fleet_node import AttemptKey

LATE_SECONDS = 15.0
"""An acknowledgement usually takes less than a second."""
FORGET_SECONDS = 30.0
"""A launch that the core has not sent for this long has been answered, or given up."""


@dataclass(slots=True)
class _SentLaunch:
    first_s: float
    last_s: float
    why: str
    told: bool = False

    def sentence(self, now_s: float) -> str:
        return f"Not acknowledged for {now_s - self.first_s:.0f} s: {self.why}. The launch is sent again every few seconds."


class LateStarts:
    """Of all nodes."""

    def __init__(self) -> None:
        self._starts: dict[AttemptKey, _SentLaunch] = {}

    def sent(self, key: AttemptKey, owing: Sequence[str], problem: str, now_s: float) -> str:
        """A launch was sent now, and these nodes have not acknowledged it before; `problem`: why it could not be sent. A line
        for the operator when it is late, once."""
        self._starts = {each: start for each, start in self._starts.items() if start.last_s > now_s - FORGET_SECONDS}
        if not owing:
            known = self._starts.pop(key, None)
            return f"job {key[0]} is acknowledged after {now_s - known.first_s:.0f} s" if known is not None and known.told else ""
        start = self._starts.setdefault(key, _SentLaunch(now_s, now_s, ""))
        start.last_s, start.why = now_s, problem or f"no answer from the agent of {', '.join(owing)}"
        if start.told or now_s < start.first_s + LATE_SECONDS:
            return ""
        start.told = True
        return f"job {key[0]}, attempt {key[1]}: {start.sentence(now_s)}"

    def late(self, now_s: float) -> dict[int, str]:
        """By job, in a sentence. Any thread."""
        return {
            job: start.sentence(now_s)
            for (job, _), start in list(self._starts.items())
            if now_s - FORGET_SECONDS < start.last_s and start.first_s + LATE_SECONDS <= now_s
        }
