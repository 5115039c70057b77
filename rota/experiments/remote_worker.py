"""A worker process of a sweep on a machine that does not have the sweep's folder: it says its results instead of keeping them."""

import shutil
import sys
from typing import Any

from rota.experiments.sweep_worker import run
from rota.experiments.versions import differences, versions
from rota.experiments.worker_pool import Alive, WorkerReply, serve


def cell(work: dict[str, Any], alive: Alive) -> WorkerReply:
    """One cell; `other`: nothing was calculated, because it would be with other versions than the sweep's."""
    other = differences(work["versions"], versions())
    return {"other": other} if other else {"result": run(work["study"], alive)}


def main() -> None:
    serve(cell)
    shutil.rmtree(sys.argv[1], ignore_errors=True)  # the copies of files that it had


if __name__ == "__main__":
    main()
