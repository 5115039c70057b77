"""Cost of each job, if all GPUs that it used have a known price."""

import numpy as np

from rota.model.units import Floats
from rota.report.result import Result


def job_costs(result: Result) -> Floats | None:
    """Return dollars per job; None if a GPU type that was used has no price. Two jobs that share GPUs pay half each. The costs of
    all jobs add up to the cost in the summary."""
    record, cluster = result.record, result.cluster
    prices = np.array([np.nan if (price := cluster.price(kind)) is None else price for kind in cluster.pools])
    intervals = record.gpu_intervals
    per_second = prices[cluster.gpu_pool] / 3600.0
    width = np.where(record.gpus < 1, record.gpus, 1.0)
    dollars = np.zeros(len(record.submitted_s))
    if len(intervals):
        sizes = np.diff(intervals.first)
        seconds = (intervals.end_s - intervals.start_s) * sizes * width[intervals.job]
        used = seconds > 0
        np.add.at(dollars, intervals.job[used], (seconds * per_second[intervals.gpus[intervals.first[:-1]]])[used])
    for job, other, gpu, count, start_s, end_s in intervals.shared:
        dollars[[job, other]] -= (end_s - start_s) * count * per_second[gpu] / 2
    return None if np.isnan(dollars).any() else dollars
