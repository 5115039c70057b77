"""The task of a sweep's cell: simulate the study."""

import functools
from collections.abc import Mapping
from typing import Any

from rota.api import run_study
from rota.compose.study import Study
from rota.experiments.worker_pool import ReportProgress
from rota.traces.synthetic import open_trace
from rota.traces.trace import Trace


@functools.lru_cache(maxsize=4)
def _trace(text: str, format: str, where: tuple[tuple[str, str], ...]) -> Trace:
    return open_trace(text, format=format, where=where)


def run(study: Study, settings: Mapping[str, Any], alive: ReportProgress) -> dict[str, Any]:
    """Return the result of one simulation, for JSON. There are no settings."""
    return run_study(study, alive, _trace(str(study.trace), study.format, study.filters)).to_dict()
