"""What each job cost, where the prices of all GPUs that it used are known."""

import numpy as np

from rota.model.units import Floats
from rota.report.result import Result


def job_costs(result: Result) -> Floats | None:
    """Dollars per job; None where a type that somebody used has no price. Of GPUs that two jobs shared, each pays half; all jobs
    together cost what the summary says."""
    record, cluster = result.record, result.cluster
    prices = np.array([np.nan if (price := cluster.price(kind)) is None else price for kind in cluster.pools])
    holds = record.gpu_intervals
    per_second = prices[cluster.gpu_pool] / 3600.0
    width = np.where(record.gpus < 1, record.gpus, 1.0)
    dollars = np.zeros(len(record.submitted_s))
    if len(holds):
        sizes = np.diff(holds.first)
        seconds = (holds.end_s - holds.start_s) * sizes * width[holds.job]
        used = seconds > 0
        np.add.at(dollars, holds.job[used], (seconds * per_second[holds.gpus[holds.first[:-1]]])[used])
    for job, other, gpu, count, start_s, end_s in holds.shared:
        dollars[[job, other]] -= (end_s - start_s) * count * per_second[gpu] / 2
    return None if np.isnan(dollars).any() else dollars
