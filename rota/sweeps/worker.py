"""One worker process of a sweep: a cell per line comes in as JSON, a verdict per line goes out as JSON.

It keeps the finished cell itself, before it says so. When its parent is gone it ends, at the latest at the next report.
"""

import functools
import json
import os
import signal
import sys
from typing import Any

from rota.api import simulate
from rota.errors import RotaError
from rota.sweeps.store import Store
from rota.traces.synthetic import open_trace
from rota.traces.trace import Trace


@functools.lru_cache(maxsize=4)
def _trace(text: str, format: str, where: tuple[tuple[str, str], ...]) -> Trace:
    return open_trace(text, format=format, where=where)


def run(keywords: dict[str, Any], parent: int) -> dict[str, Any]:
    """One simulation, as plain data."""

    def alive(done: int, total: int, now_s: float) -> None:
        if os.getppid() != parent:
            os._exit(1)

    given = dict(keywords)
    where = tuple((str(column), str(value)) for column, value in given.pop("where", None) or ())
    trace = _trace(given.pop("trace"), given.pop("format", None) or "auto", where)
    window = given.pop("jobs", None)
    return simulate(trace, jobs=tuple(window) if window else None, progress=alive, **given).to_dict()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends us
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a policy prints goes to standard error, not into the answers
    parent = os.getppid()
    store = Store(sys.argv[1])
    for line in sys.stdin:
        cell = json.loads(line)
        answer: dict[str, Any] = {"key": cell["key"]}
        try:
            store.save(cell["key"], run(cell["keywords"], parent))
        except RotaError as problem:
            answer |= {"error": problem.message, "hint": problem.hint}
        except OSError as problem:
            answer |= {"error": f"The result cannot be kept: {problem.strerror or problem}.", "hint": "free some space"}
        except BaseException as problem:  # a policy may raise anything, SystemExit too; the other cells are not to blame
            answer |= {"error": f"{type(problem).__name__}: {problem}.", "hint": "rota policy check, with this policy"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
