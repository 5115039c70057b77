"""One worker process of a sweep: it keeps every finished cell itself, before it says so."""

import functools
import sys
from typing import Any

from rota.api import run_study
from rota.compose.study import make_study
from rota.experiments.store import Store
from rota.experiments.worker_pool import Alive, WorkerReply, serve
from rota.traces.synthetic import open_trace
from rota.traces.trace import Trace


@functools.lru_cache(maxsize=4)
def _trace(text: str, format: str, where: tuple[tuple[str, str], ...]) -> Trace:
    return open_trace(text, format=format, where=where)


def run(fields: dict[str, Any], alive: Alive) -> dict[str, Any]:
    """One simulation, as plain data."""
    study = make_study(fields)
    return run_study(study, alive, _trace(str(study.trace), study.format, study.filters)).to_dict()


def main() -> None:
    store = Store(sys.argv[1])

    def cell(work: dict[str, Any], alive: Alive) -> WorkerReply:
        store.save(work["key"], run(work["study"], alive))
        return {}

    serve(cell)


if __name__ == "__main__":
    main()
