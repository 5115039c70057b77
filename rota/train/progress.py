"""Progress reports to the supervisor of the job: each is a datagram of JSON to the socket `tell` in the run folder.

    {"op": "report", "steps_done": 120, "steps_total": 1000, "steps_saved": 100, "metrics": {"loss": 0.41}}

Sessions add two fields: `saves`, whether the job saves its state when it must stop, and `saving_problem`, why the last save
failed (empty if it did not). Every field is optional. Any language can send a report. A report that can't be delivered is
dropped, since the next one contains it.
"""

import json
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rota.agent import datagrams
from rota.agent.constants import REPORT
from rota.agent.disk import REPORT_SOCKET
from rota.errors import OptionError
from rota.train.rank_environment import read_rank_environment

SURE_SECONDS = 1.0
MAX_PROBLEM_CHARS = 1000
REPORT_EVERY_SECONDS = 0.5
"""Shortest interval between reports, in seconds; the first and the last are sent at once."""


class ProgressReporter:
    """Sends the reports of one job. Without a folder it sends nothing: then the script runs outside Rota."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.next_s = 0.0 if folder is not None else math.inf
        """Time of the next report, on the monotonic clock."""

    def hurry(self) -> None:
        """Send the next report at once."""
        if self.folder is not None:
            self.next_s = 0.0

    def send(
        self,
        done: float,
        *,
        total: float | None = None,
        saved: float | None = None,
        metrics: Mapping[str, Any] | None = None,
        saves: bool | None = None,
        saving_problem: str | None = None,
        sure: bool = False,
    ) -> bool:
        """Send a report, and return whether it was delivered. `saves`: whether the job saves its state when it must stop;
        `saving_problem`: why a save failed; `sure`: retry for a second if the socket is full."""
        if self.folder is None:
            return False
        report: dict[str, Any] = {"op": REPORT, "steps_done": done}
        report |= {} if total is None else {"steps_total": total}
        report |= {} if saved is None else {"steps_saved": saved}
        report |= {"metrics": numbers(metrics)} if metrics else {}
        report |= {} if saves is None else {"saves": saves}
        report |= {} if saving_problem is None else {"saving_problem": saving_problem[:MAX_PROBLEM_CHARS]}
        self.next_s = time.monotonic() + REPORT_EVERY_SECONDS
        sure = sure and (self.folder / REPORT_SOCKET).exists()
        text, deadline = json.dumps(report).encode(), time.monotonic() + SURE_SECONDS
        while not (sent := datagrams.send(self.folder, REPORT_SOCKET, text)) and sure and time.monotonic() < deadline:
            time.sleep(0.01)
        return sent


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the metrics that are finite numbers. A tensor is read only here, because reading it waits for its GPU."""
    found = {}
    for name, value in metrics.items():
        try:
            number = float(value)
        except (TypeError, ValueError, RuntimeError):
            continue
        if math.isfinite(number):
            found[str(name)] = number
    return found


def _plain(value: Any) -> Any:
    """Return a number that JSON can carry."""
    return value if value is None or isinstance(value, int | float) else float(value)


def is_number(value: object) -> bool:
    """Whether this is a number or can be converted to one, like a tensor. A text is not a number."""
    if isinstance(value, str | bytes | bool) or value is None:
        return False
    return hasattr(value, "__float__") or hasattr(value, "__index__")


_reporter: ProgressReporter | None = None


def report(step: float, total: float | None = None, *, saved: float | None = None, **metrics: Any) -> None:
    """Report to the scheduler how many steps are done, how many there are, and how many are saved on disk.

    It can be called at every step: it sends at most two reports per second. Outside Rota it does nothing.
    """
    global _reporter
    for name, value in (("step", step), ("total", total), ("saved", saved)):
        if not is_number(value) and (name == "step" or value is not None):
            raise OptionError("is not a number of steps.", field=name, value=value, hint="train.report(step, total)")
    step, total, saved = _plain(step), _plain(total), _plain(saved)
    if _reporter is None:
        where = read_rank_environment()
        _reporter = ProgressReporter(where.run_folder if where.rank == 0 else None)
    if time.monotonic() >= _reporter.next_s or (_reporter.folder is not None and (saved is not None or step == total)):
        _reporter.send(step, total=total, saved=saved, metrics=metrics, sure=step == total)  # none follows the last
