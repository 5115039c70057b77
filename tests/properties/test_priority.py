"""Jobs of a higher priority come first under every policy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.rates import Rates
from rota.core.decision_timing import AtEvents, AtRounds
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.validate import validate
from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.placers.packed import Packed
from rota.policies.fifo import Fifo
from rota.policies.gandiva import Gandiva
from rota.policies.las import Las
from rota.policies.max_min_fairness import MaxMinFairness
from rota.policies.srsf import Srsf
from rota.policies.tiresias import Tiresias
from rota.sim.engine import Engine
from rota.sim.physics import Physics
from tests.examples import examples

POLICIES = [Fifo(), Las(), Srsf(), Tiresias(thresholds=(60.0,)), MaxMinFairness(), Gandiva()]
CLUSTERS = ["3xV100", "2x(2xV100) + 1x(4xK80)", "1x(4xA100) + 2x(2xP100)"]


class Watched(Scheduler):
    """Checks every plan."""

    waited = 0

    def commit(self, decided: Any) -> Any:
        commands = super().commit(decided)
        validate(self.state)
        if decided is not None and decided.plan is not None:
            self.check()
        return commands

    def check(self) -> None:
        """No GPUs of a lower priority, with those that are free, would be enough for a job that waits."""
        state, table = self.state, self.state.jobs.table
        assert state.cycle.answer is not None
        known, pool_of = set(state.cycle.answer.ids.tolist()), state.nodes.cluster.gpu_pool
        for row in state.jobs.rows.tolist():
            job = table.id.item(row)
            if job in state.jobs.desired or job not in known:
                continue  # it runs, or the policy was called before it came
            lower = state.nodes.planned.free.copy()
            for other, gpus in state.jobs.desired.items():
                if other in known and table.priority[state.jobs.row[other]] < table.priority[row]:
                    lower[gpus] = True
                    Watched.waited += 1
            spec = state.jobs.specs[job]
            for number, name in enumerate(state.nodes.cluster.pools):
                if spec.accelerators and name not in spec.accelerators:
                    continue
                some = any(
                    table.priority[state.jobs.row[other]] < table.priority[row] and (pool_of[gpus] == number).any()
                    for other, gpus in state.jobs.desired.items()
                    if other in known
                )
                enough = int((lower & (pool_of == number)).sum()) >= spec.gpus
                assert not (some and enough), f"job {job} waits while jobs of a lower priority have its GPUs"


def arrivals_of(rng: np.random.Generator, cluster: Cluster) -> list[Arrival]:
    found = []
    for at_s in np.cumsum(rng.exponential(25, 25)).round(1).tolist():
        only = (cluster.pools[int(rng.integers(len(cluster.pools)))],) if rng.random() < 0.3 else ()
        gpus = int(rng.choice([1, 1, 2, 3]))
        most = max(cluster.pool_gpus[i] for i, name in enumerate(cluster.pools) if not only or name in only)
        priority = int(rng.choice([0, 0, 0, 5, -3, 1000]))
        spec = JobSpec(gpus=min(gpus, int(most)), steps=float(rng.integers(1, 300)), priority=priority, accelerators=only)
        found.append(Arrival(at_s, spec))
    return found


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)
@given(st.integers(0, 10**6))
@examples(15)
def test_no_lower_priority_has_gpus_that_a_waiting_job_could_use(policy: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cluster = Cluster.parse(CLUSTERS[seed % len(CLUSTERS)])
    decide = AtRounds(round_seconds=40.0, at_events=True) if seed % 2 else AtEvents()
    core = Watched(cluster, Packed(), Settings(decide=decide, seed=seed), rates=Rates())
    record = Engine(core, policy, Physics(rates=Rates()), arrivals_of(rng, cluster), seed=seed).run()
    assert record.ended == 25 and not core.state.jobs.row


def test_the_property_was_put_to_the_test() -> None:
    cluster = Cluster.parse("2x(2xV100)")
    core = Watched(cluster, Packed(), Settings(), rates=Rates())
    first = [Arrival(0.0, JobSpec(steps=100.0, name=f"low-{number}")) for number in range(3)]
    urgent = Arrival(10.0, JobSpec(gpus=3, steps=50.0, priority=1))
    record = Engine(core, Fifo(), Physics(rates=Rates()), [*first, urgent], seed=1).run()
    assert record.first_run_s[3] == 10.0 and record.finished_s[3] == 60.0, "it takes the GPUs of running jobs, under fifo too"
    assert sorted(record.finished_s[:3].tolist())[0] == 100.0 and record.finished_s[:3].max() == 150.0
