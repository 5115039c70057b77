"""One worker process of a sweep: it keeps every finished cell itself, before it says so."""

import functools
import sys
from typing import Any

from rota.api import simulate
from rota.sweeps.crew import Alive, Answer, serve
from rota.sweeps.store import Store
from rota.traces.synthetic import open_trace
from rota.traces.trace import Trace


@functools.lru_cache(maxsize=4)
def _trace(text: str, format: str, where: tuple[tuple[str, str], ...]) -> Trace:
    return open_trace(text, format=format, where=where)


def run(keywords: dict[str, Any], alive: Alive) -> dict[str, Any]:
    """One simulation, as plain data."""
    given = dict(keywords)
    where = tuple((str(column), str(value)) for column, value in given.pop("where", None) or ())
    trace = _trace(given.pop("trace"), given.pop("format", None) or "auto", where)
    window = given.pop("jobs", None)
    return simulate(trace, jobs=tuple(window) if window else None, progress=alive, **given).to_dict()


def main() -> None:
    store = Store(sys.argv[1])

    def cell(work: dict[str, Any], alive: Alive) -> Answer:
        store.save(work["key"], run(work["keywords"], alive))
        return {}

    serve(cell)


if __name__ == "__main__":
    main()
