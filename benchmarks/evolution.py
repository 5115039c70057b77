"""The search of ONES: what one generation costs, and a whole answer.

make bench ARGS=evolution
"""

import time
from typing import Any

import numpy as np

from rota.beliefs.rates import Rates
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.model.cluster import Cluster
from rota.model.events import Submitted
from rota.placers.packed import Packed
from rota.policies.evolution import generation
from rota.policies.ones import Ones, _State
from rota.profiles.catalogue import Catalogue
from rota.solver.size_table import SizeTable
from rota.traces.ones_jobs import ones_jobs

CASES = ((16, 60), (256, 500))
"""Nodes of four GPUs, and jobs."""


def evolution() -> list[dict[str, Any]]:
    """CPU milliseconds of one generation, the best of ten, and of a whole answer."""
    rows = []
    for nodes, jobs in CASES:
        cluster = Cluster.parse(f"{nodes}x(4xRTX5000)")
        core = Scheduler(cluster, Packed(), Settings(needs_predictions=True), rates=Rates(model=Catalogue()))
        arrivals = ones_jobs(jobs, largest=min(64, cluster.gpus)).arrivals
        core.fold(0.0, [Submitted(number, arrival.spec, 0.0) for number, arrival in enumerate(arrivals)])
        view, policy = core.view(), Ones()
        kinds, kind = np.unique(view.jobs.kind, return_inverse=True)
        table = SizeTable.of(view.options, kinds, len(view.capacity), policy.batch)
        state = _State.of(view, table, kind, policy.epochs_before, policy.first_gpus)
        problem, rng = state.problem(view, policy.epochs_between, policy.favour), view.rng()
        parents, left = state.parents(view, policy.population, rng), state.steps_left(view, rng, policy.draws)
        times = []
        for _ in range(10):
            started = time.process_time()
            parents, _, _ = generation(problem, parents, left, rng, policy.exchange, policy.evict, policy.score)
            times.append(time.process_time() - started)
        started = time.process_time()
        policy.allocate(view)
        rows.append(
            {
                "what": f"one generation of ones: {jobs} jobs on {cluster.gpus} GPUs",
                "generation_ms": 1000 * min(times),
                "answer_ms": 1000 * (time.process_time() - started),
            }
        )
    return rows


if __name__ == "__main__":
    for row in evolution():
        print(row)
