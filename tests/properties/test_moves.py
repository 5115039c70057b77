"""Moves of tactics under any policy: no GPU is held twice, no job moves back and forth, and the same seed gives the same
moves."""

from typing import Any, ClassVar

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from rota.api import PreparedStudy, prepare
from rota.model.cluster import Cluster
from rota.model.events import Decided
from rota.model.job import Arrival, JobSpec
from rota.sim.record import Record
from rota.traces.trace import Trace
from tests.examples import examples
from tests.fuzz.checks import Watched, check_ends, check_placements, check_same
from tests.fuzz.setup import Setup

REST_SECONDS = 600.0
steps = st.integers(50, 20_000).map(float)


class Noted(Watched):
    """Checked after every step; notes who was moved when, and from where to where."""

    moves: ClassVar[list[tuple[int, float, list[int], list[int]]]] = []

    def commit(self, decided: Any) -> Any:
        if isinstance(decided, Decided) and decided.plan is not None:
            for change in decided.plan.changes:
                if change.job in decided.plan.moved:
                    before = self.state.jobs.desired[change.job]
                    self.moves.append((change.job, decided.at_s, before.tolist(), change.gpus.tolist()))
        return super().commit(decided)


@st.composite
def studies(draw: st.DrawFn) -> dict[str, Any]:
    """Small jobs that are spread over all nodes and end at odd times, and gangs that come in between."""
    cluster = draw(st.sampled_from(("4x(4xV100)", "2x(2x(4xV100))", "3x(4xV100) + 3x(4xP100)", "3x(8xV100)")))
    widest = 8 if "8x" in cluster else 4
    jobs = []
    for _ in range(draw(st.integers(4, 10))):
        jobs.append(Arrival(float(draw(st.integers(0, 900))), JobSpec(gpus=draw(st.integers(1, 2)), steps=draw(steps))))
    for _ in range(draw(st.integers(1, 5))):
        gpus = draw(st.sampled_from((3, widest, widest, 2 * widest)))
        jobs.append(Arrival(float(draw(st.integers(300, 4000))), JobSpec(gpus=gpus, steps=draw(steps))))
    return {
        "trace": Trace.of("made up", "", jobs),
        "cluster": cluster,
        "policy": draw(st.sampled_from(("fifo", "fifo:backfill=true", "las", "srsf", "tiresias", "max-min-fairness"))),
        "placer": draw(st.sampled_from(("spread", "spread", "packed", "random"))),
        "wait_for_locality": draw(st.booleans()),
        "spread_penalty": draw(st.sampled_from((1.0, 1.3, 2.0))),
        "launch_seconds": draw(st.sampled_from((0.0, 5.0, 30.0))),
        "tactics": draw(st.sampled_from(("defragment", "migrate", "defragment,migrate"))),
    }


def crowded(seed: int, tactics: str) -> dict[str, Any]:
    """Small jobs that are spread over all nodes, and gangs that wait for whole nodes: tactics have to move many jobs."""
    rng = np.random.default_rng(seed)
    jobs = [Arrival(float(rng.integers(0, 600)), JobSpec(gpus=1, steps=float(rng.integers(5_000, 40_000)))) for _ in range(12)]
    jobs += [Arrival(float(at_s), JobSpec(gpus=4, steps=3_000.0)) for at_s in range(900, 9_000, 900)]
    return {
        "trace": Trace.of("made up", "", jobs),
        "cluster": "5x(4xV100)",
        "policy": "fifo",
        "placer": "spread",
        "wait_for_locality": True,
        "tactics": tactics,
    }


def run(study: dict[str, Any]) -> tuple[PreparedStudy, Record, list[tuple[int, float, list[int], list[int]]]]:
    Noted.moves.clear()
    ready = prepare(**study)
    record = ready.engine(core=Noted).run()
    return ready, record, Noted.moves.copy()


total = 0


@examples(180)
@example(crowded(3, "defragment,migrate"))
@example(crowded(4, "defragment"))
@example(crowded(5, "defragment,migrate"))
@given(studies())
def check_study(study: dict[str, Any]) -> None:
    global total
    ready, record, made = run(study)
    check_placements(Setup(0, study, Cluster.parse(study["cluster"])), ready, record)
    check_ends(ready, record)
    last: dict[int, float] = {}
    for job, at_s, before, after in made:
        assert before != after
        if job in last:
            assert at_s >= last[job] + REST_SECONDS, f"job {job} moved again after {at_s - last[job]} s"
        last[job] = at_s
    if total % 4 == 0:
        _, again, same = run(study)
        check_same(record, again)
        assert made == same
    total += len(made)


def test_moves_keep_every_promise() -> None:
    check_study()
    assert total > 10, "the set-ups are such that jobs do move"


def test_a_job_that_does_not_lose_its_gpus_stays_where_it_was_moved() -> None:
    """Where no job is suspended for another, only tactics move jobs."""
    _, record, made = run(crowded(3, "defragment,migrate"))
    assert made and record.migrations.sum() == len(made)
