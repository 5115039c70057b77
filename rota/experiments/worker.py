"""A worker process: it calculates one cell at a time and returns the result. It keeps nothing itself."""

import importlib
import shutil
import sys
from typing import Any

from rota.compose.study import make_study
from rota.experiments.versions import differences, versions
from rota.experiments.worker_pool import ReportProgress, WorkerReply, serve
from rota.files.inputs import InputTable, read_through


def calculate(work: dict[str, Any], alive: ReportProgress) -> WorkerReply:
    """Calculate a cell. A cell of another machine comes with that machine's versions and with copies of its inputs; if the
    versions differ, nothing is calculated and `other` has the differences."""
    if "versions" in work and (other := differences(work["versions"], versions())):
        return {"other": other}
    with read_through(InputTable(**work["inputs"]) if "inputs" in work else None):
        task = importlib.import_module(work["task"])
        return {"result": task.run(make_study(work["study"]), work["settings"], alive)}


def main() -> None:
    serve(calculate)
    for folder in sys.argv[1:]:  # has copies of input files
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
