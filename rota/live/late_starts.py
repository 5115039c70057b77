"""Launches that no agent has acknowledged: they are noted each time the core sends them, and reported once they are late.

The core sends a launch every few seconds until the job has started, which may take minutes. An agent acknowledges it much sooner:
the attempt is in its inventory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rota.live.driver_node import AttemptKey

LATE_SECONDS = 15.0
"""Age at which a launch is late, in seconds. An acknowledgement usually takes less than one."""
FORGET_SECONDS = 30.0
"""Time after which a launch that the core no longer sends counts as answered or given up, in seconds."""


@dataclass(slots=True)
class _SentLaunch:
    first_s: float
    last_s: float
    why: str
    reported: bool = False

    def sentence(self, now_s: float) -> str:
        return f"Not acknowledged for {now_s - self.first_s:.0f} s: {self.why}. The launch is sent again every few seconds."


class LateStarts:
    """Launches on all nodes, by attempt."""

    def __init__(self) -> None:
        self._starts: dict[AttemptKey, _SentLaunch] = {}

    def sent(self, key: AttemptKey, owing: Sequence[str], problem: str, now_s: float) -> str:
        """Note that a launch was sent now. Return a line for the operator once, when the launch is late.

        `owing` has the nodes that have not acknowledged it, `problem` the reason if it could not be sent.
        """
        self._starts = {each: start for each, start in self._starts.items() if start.last_s > now_s - FORGET_SECONDS}
        if not owing:
            known = self._starts.pop(key, None)
            return (
                f"job {key[0]} is acknowledged after {now_s - known.first_s:.0f} s"
                if known is not None and known.reported
                else ""
            )
        start = self._starts.setdefault(key, _SentLaunch(now_s, now_s, ""))
        start.last_s, start.why = now_s, problem or f"no answer from the agent of {', '.join(owing)}"
        if start.reported or now_s < start.first_s + LATE_SECONDS:
            return ""
        start.reported = True
        return f"job {key[0]}, attempt {key[1]}: {start.sentence(now_s)}"

    def late(self, now_s: float) -> dict[int, str]:
        """Return a sentence for each job whose launch is late. Any thread."""
        return {
            job: start.sentence(now_s)
            for (job, _), start in list(self._starts.items())
            if now_s - FORGET_SECONDS < start.last_s and start.first_s + LATE_SECONDS <= now_s
        }
