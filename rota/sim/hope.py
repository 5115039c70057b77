"""Detection of nodes that fail faster than any job can save its state. Such a simulation would never end."""

from collections.abc import Mapping

from rota.errors import SimulationStalled

FAILURES_TO_SAVE = 100
"""A job must save a step or end within this many failures per node, on average."""
MAX_FAILURES = 2000
"""A job must end within this many failures per node, on average."""
HINT = "times are in seconds: --node-mtbf-seconds 86400, and --checkpoint-every-seconds 600"


class Hope:
    """Failures and saved steps since the last job ended."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._ended, self._failures, self._saved = 0, 0, -1.0

    def check(self, failures: int, ended: int, storage: Mapping[int, float]) -> None:
        """Raise SimulationStalled if no job ends any more. `failures` and `ended` are counted from the start; `storage` has the
        saved steps of each job."""
        if ended > self._ended:
            self._ended, self._failures, self._saved = ended, failures, -1.0
            return
        since = failures - self._failures
        if since % (FAILURES_TO_SAVE * self._nodes) == 0:
            saved = sum(storage.values())
            if saved <= self._saved or (self._saved < 0 and not saved):
                raise SimulationStalled(
                    f"Every node has failed {FAILURES_TO_SAVE} times on average, and no job has saved a step, so none can end.",
                    hint=HINT,
                )
            self._saved = saved
        if since > MAX_FAILURES * self._nodes:
            raise SimulationStalled(
                f"Every node has failed {MAX_FAILURES} times on average since the last job finished, so none can end.",
                hint=HINT,
            )
