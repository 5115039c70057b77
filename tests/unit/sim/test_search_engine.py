"""Searches: jobs are cancelled because of their own progress and that of other jobs."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.api import simulate
from rota.compose.prepare import prepare_study
from rota.compose.study import make_study
from rota.core.validate import validate
from rota.errors import OptionError
from rota.model.job import Arrival, JobSpec
from rota.sim.engine import Engine
from rota.sim.record import Record
from rota.sim.search_engine import SearchEngine
from rota.traces.search import Search
from rota.traces.trace import Trace

NAMES = ("a", "b", "c", "d")


def engine(search: Search | None, *, names: tuple[str, ...] = NAMES, steps: float = 1000.0, **fields: Any) -> Engine:
    jobs = tuple(Arrival(0.0, JobSpec(name=name, steps=steps, can_park=True)) for name in names)
    trace = Trace("made up", "", jobs, searches=() if search is None else (search,))
    return prepare_study(make_study({"trace": trace, "policy": "fifo", "preset": "ideal", **fields})).engine(None)


def run(search: Search | None, **fields: Any) -> Record:
    return engine(search, **fields).run()


def test_the_worse_are_cancelled_when_better_ones_have_made_as_many_steps() -> None:
    record = run(Search(("c", "a", "d", "b"), 100.0, 2), cluster="4xV100")
    assert record.cancelled_s[[1, 3]].tolist() == [100.0, 100.0] and np.isnan(record.finished_s[[1, 3]]).all()
    assert record.finished_s[[0, 2]].tolist() == [1000.0, 1000.0] and np.isnan(record.cancelled_s[[0, 2]]).all()
    assert record.occupied_gpu_seconds.tolist() == [1000.0, 100.0, 1000.0, 100.0] and not record.lost_gpu_seconds.any()


def test_when_follows_from_who_was_let_run() -> None:
    """On one GPU, first come first served: the worst runs to its end before any other shows what it can."""
    search = Search(("d", "c", "b", "a"), 100.0, 1)
    served = run(search, cluster="1xV100")
    assert served.finished_s[0] == 1000.0, "it was done before there was a better one"
    assert served.finished_s[3] == 4000.0 and np.isnan(served.cancelled_s).all()
    turns = run(search, cluster="1xV100", policy="gandiva", tactics="none")
    assert turns.cancelled_s[:3].max() < 600.0, "after two turns of four jobs"
    assert turns.finished_s[3] == pytest.approx(1300.0, abs=130.0)


def test_one_that_waits_or_sleeps_is_cancelled_where_it_is() -> None:
    """The first sleeps on the host, or is on storage, when the second turns out to be better."""
    for park in (True, False):
        search = Search(("b", "a"), 70.0, 1)
        jobs = tuple(Arrival(0.0, JobSpec(name=name, steps=1000.0, can_park=park)) for name in ("a", "b"))
        fields = {"policy": "gandiva", "preset": "ideal", "cluster": "1xV100", "tactics": "none"}
        study = make_study({"trace": Trace("made up", "", jobs, searches=(search,)), **fields})
        made = prepare_study(study).engine(None)
        record = made.run()
        validate(made.scheduler.state)
        assert record.cancelled_s[0] == pytest.approx(190.0, abs=1.0), "70 steps of the second end in its second turn"
        assert record.finished_s[1] == pytest.approx(1000.0 + record.occupied_gpu_seconds[0], abs=1.0)


def test_one_with_fewer_steps_than_that_shows_it_when_it_ends() -> None:
    jobs = (Arrival(0.0, JobSpec(name="short", steps=50.0)), Arrival(0.0, JobSpec(name="long", steps=1000.0)))
    trace = Trace("made up", "", jobs, searches=(Search(("short", "long"), 100.0, 1),))
    study = make_study({"trace": trace, "policy": "fifo", "preset": "ideal", "cluster": "2xV100"})
    record = prepare_study(study).engine(None).run()
    assert record.finished_s[0] == 50.0 and record.cancelled_s[1] == 100.0


def test_without_a_search_nothing_is_different() -> None:
    plain, watched = engine(None, cluster="2xV100"), engine(Search(NAMES, 100.0, 4), cluster="2xV100")
    assert type(plain) is Engine and type(watched) is SearchEngine
    assert plain.run().finished_s.tolist() == watched.run().finished_s.tolist(), "all are worth it"


def test_jobs_that_the_trace_no_longer_has_do_not_count() -> None:
    record = run(Search(("gone", *NAMES), 100.0, 1), cluster="4xV100")
    assert np.isfinite(record.finished_s).tolist() == [True, False, False, False]


def test_the_result_says_how_many_were_stopped() -> None:
    result = simulate("gandiva:jobs=40,seed=1,gpus=8,sweeps=1,feedback_steps=300", policy="gandiva", cluster="2x(4xV100)")
    stopped = int(np.isfinite(result.record.cancelled_s).sum())
    assert 0 < stopped == 40 - result.summary.finished
    assert f"searches stopped {stopped} of 40 jobs; JCTs are of the others" in result.params["notes"]


def test_a_search_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(OptionError, match="more than 0"):
        Search(NAMES, 0.0, 1)
    with pytest.raises(OptionError, match="1 or more"):
        Search(NAMES, 10.0, 0)


@settings(deadline=None)
@given(
    order=st.permutations(NAMES),
    keep=st.integers(1, 4),
    gpus=st.integers(1, 4),
    steps=st.sampled_from([30.0, 100.0, 250.0]),
    policy=st.sampled_from(["fifo", "gandiva", "las", "srsf"]),
    costs=st.booleans(),
)
@pytest.mark.slow
def test_the_best_always_train_to_the_end(order: list[str], keep: int, gpus: int, steps: float, policy: str, costs: bool) -> None:
    """Whoever is let run when: no job of the best few is cancelled, each other one was not before it made its steps and so many
    better ones did, and all end."""
    more: dict[str, Any] = {"launch_seconds": 5.0, "preset": None} if costs else {}
    made = engine(Search(tuple(order), steps, keep), cluster=f"{gpus}xV100", policy=policy, **more)
    record = made.run()
    validate(made.scheduler.state)
    best = [NAMES.index(name) for name in order[:keep]]
    assert np.isfinite(record.finished_s[best]).all()
    assert (np.isfinite(record.finished_s) ^ np.isfinite(record.cancelled_s)).all()
    gone = np.isfinite(record.cancelled_s)
    assert (record.occupied_gpu_seconds[gone] >= steps - 1e-6).all()
    assert not record.lost_gpu_seconds.any()
