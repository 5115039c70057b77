"""Telling the supervisor of this job how far it is: one datagram with JSON in it, to the socket `tell` in the run folder.

    {"op": "report", "steps_done": 120, "steps_total": 1000, "steps_saved": 100, "metrics": {"loss": 0.41}}

Two more fields are of sessions: `saves`, whether it saves its state when it is asked to stop, and `saving_problem`, why the last
save failed (empty: it did not). Every field may be left out. Any language can send this. What can't be delivered is dropped:
the next report says more.
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
LONGEST_PROBLEM = 1000
TELL_EVERY_SECONDS = 0.5
"""Reports are not sent more often than this, the first and the last apart."""


class Teller:
    """Sends reports of one job. Without a folder nothing is sent: that is how a script runs outside Rota."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.next_s = 0.0 if folder is not None else math.inf
        """When the next report is due, on the monotonic clock."""

    def hurry(self) -> None:
        """The next report is due at once."""
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
        """Whether it was delivered. `saves`: whether the job saves its state when it is asked to stop; `saving_problem`: why that
        failed; `sure`: it matters, so it is tried again for a moment if the box is full."""
        if self.folder is None:
            return False
        report: dict[str, Any] = {"op": REPORT, "steps_done": done}
        report |= {} if total is None else {"steps_total": total}
        report |= {} if saved is None else {"steps_saved": saved}
        report |= {"metrics": numbers(metrics)} if metrics else {}
        report |= {} if saves is None else {"saves": saves}
        report |= {} if saving_problem is None else {"saving_problem": saving_problem[:LONGEST_PROBLEM]}
        self.next_s = time.monotonic() + TELL_EVERY_SECONDS
        sure = sure and (self.folder / REPORT_SOCKET).exists()
        text, deadline = json.dumps(report).encode(), time.monotonic() + SURE_SECONDS
        while not (sent := datagrams.send(self.folder, REPORT_SOCKET, text)) and sure and time.monotonic() < deadline:
            time.sleep(0.01)
        return sent


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """What of these is a finite number. A tensor is read here and not before: reading one waits for its GPU."""
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
    """As JSON has it."""
    return value if value is None or isinstance(value, int | float) else float(value)


def is_number(value: object) -> bool:
    """A number, or anything that becomes one, as a tensor does; a text is none."""
    if isinstance(value, str | bytes | bool) or value is None:
        return False
    return hasattr(value, "__float__") or hasattr(value, "__index__")


_teller: Teller | None = None


def report(step: float, total: float | None = None, *, saved: float | None = None, **metrics: Any) -> None:
    """Tell the scheduler how many steps are done, of how many, and up to which one the work is safe on disk.

    May be called at every step: it sends twice a second at most. Outside Rota it does nothing.
    """
    global _teller
    for name, value in (("step", step), ("total", total), ("saved", saved)):
        if not is_number(value) and (name == "step" or value is not None):
            raise OptionError("is not a number of steps.", field=name, value=value, hint="train.report(step, total)")
    step, total, saved = _plain(step), _plain(total), _plain(saved)
    if _teller is None:
        where = read_rank_environment()
        _teller = Teller(where.run_folder if where.rank == 0 else None)
    if time.monotonic() >= _teller.next_s or (_teller.folder is not None and (saved is not None or step == total)):
        _teller.send(step, total=total, saved=saved, metrics=metrics, sure=step == total)  # after the last, none says more
