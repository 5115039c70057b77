"""The vectorised mechanism against the plain greedy walk that it replaces."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.core.plan import fill as mechanism
from rota.core.plan.fill import grant
from rota.core.plan.order import Candidates, Preference, expand_options
from rota.model.options import Options
from rota.model.units import MILLI
from tests.examples import examples


@st.composite
def instances(draw: st.DrawFn) -> tuple[Options, Any, Candidates, np.ndarray]:
    pools = draw(st.integers(1, 3))
    kinds = draw(st.integers(1, 5))
    rows = []
    for kind in range(kinds):
        usable = draw(st.lists(st.integers(0, pools - 1), min_size=1, max_size=pools, unique=True))
        gpus = draw(st.integers(1, 6))
        rows += [(kind, pool, gpus * MILLI, draw(st.floats(0.1, 9)), 0.0) for pool in usable]
    options = Options.of(rows, kinds)
    jobs = draw(st.integers(0, 25))
    kind = np.array(draw(st.lists(st.integers(0, kinds - 1), min_size=jobs, max_size=jobs)), dtype=np.int64)
    steps = np.array(draw(st.lists(st.floats(1, 100), min_size=jobs, max_size=jobs)), dtype=np.float64)
    table = SimpleNamespace(rows=np.arange(jobs), options=options, kind=kind, steps_left=steps)
    order = np.array(draw(st.permutations(range(jobs))), dtype=np.int64)
    pairs = [(job, option) for job in order.tolist() for option in options.by_kind[kind[job]].tolist() if option >= 0]
    position = np.array([job for job, _ in pairs], dtype=np.int64)
    option = np.array([option for _, option in pairs], dtype=np.int64)
    capacity = np.array(draw(st.lists(st.integers(0, 12), min_size=pools, max_size=pools)), dtype=np.int64)
    implicit = options.by_kind.shape[1] == 1 and draw(st.booleans())
    return options, table, Candidates(position, None if implicit else option, blocking=draw(st.booleans())), capacity


def walk(options: Options, kind: np.ndarray, candidates: Candidates, capacity: np.ndarray) -> tuple[dict[int, int], np.ndarray]:
    """One job after the other, first option that has room."""
    left, granted = capacity * MILLI, {}
    wanted = options.best[kind[candidates.position]] if candidates.option is None else candidates.option
    jobs = list(dict.fromkeys(candidates.position.tolist()))
    for job in jobs:
        for option in wanted[candidates.position == job].tolist():
            if options.milligpus[option] <= left[options.pool[option]]:
                left[options.pool[option]] -= options.milligpus[option]
                granted[job] = option
                break
        else:
            if candidates.blocking:
                break
    return granted, left


@pytest.mark.parametrize("few", [0, mechanism.FEW])
@given(instance=instances())
@examples(400)
def test_grants_equal_the_greedy_walk(few: int, instance: tuple[Options, Any, Candidates, np.ndarray]) -> None:
    """Both ways: arrays for many candidates, one by one for few."""
    options, table, candidates, capacity = instance
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mechanism, "FEW", few)
        grants = grant(candidates, table, capacity)
    expected, left = walk(options, table.kind, candidates, capacity)
    assert {job: int(o) for job, o in enumerate(grants.option.tolist()) if o >= 0} == expected
    assert grants.left.tolist() == left.tolist()
    assert sorted(grants.position.tolist()) == sorted(expected)


@given(instances())
@examples(300)
def test_backfill_never_delays_the_head(instance: tuple[Options, Any, Candidates, np.ndarray]) -> None:
    """With a reservation, the first job that does not fit can start no later than without those who overtook it."""
    options, table, candidates, capacity = instance
    blocked = Candidates(candidates.position, candidates.option, blocking=True)
    strict, _ = walk(options, table.kind, blocked, capacity)
    grants = grant(Candidates(candidates.position, candidates.option, reserve=True), table, capacity)
    loose = {job: int(o) for job, o in enumerate(grants.option.tolist()) if o >= 0}
    assert strict.items() <= loose.items(), "everybody before the head runs as under strict order"
    waiting = [job for job in dict.fromkeys(candidates.position.tolist()) if job not in strict]
    if waiting:
        head = waiting[0]
        assert head not in loose
        assert _earliest(options, table, loose, capacity, head) <= _earliest(options, table, strict, capacity, head) + 1e-9


def _earliest(options: Options, table: Any, granted: dict[int, int], capacity: np.ndarray, head: int) -> float:
    """When the head could start if everybody granted runs to the end."""
    ends = {job: table.steps_left[job] / options.rate[o] for job, o in granted.items()}
    best = np.inf
    for mine in options.by_kind[table.kind[head]].tolist():
        if mine < 0:
            continue
        pool, need = options.pool[mine], options.milligpus[mine]
        free = capacity[pool] * MILLI - sum(options.milligpus[o] for o in granted.values() if options.pool[o] == pool)
        if free >= need:
            return 0.0
        for job in sorted((j for j, o in granted.items() if options.pool[o] == pool), key=ends.__getitem__):
            free += options.milligpus[granted[job]]
            if free >= need:
                best = min(best, ends[job])
                break
    return float(best)


@given(instances())
@examples(300)
def test_backfill_leaves_nothing_that_could_still_overtake(instance: tuple[Options, Any, Candidates, np.ndarray]) -> None:
    """Whoever waits either fits nowhere in what is left, or would take GPUs that the head has reserved."""
    options, table, candidates, capacity = instance
    grants = grant(Candidates(candidates.position, candidates.option, reserve=True), table, capacity)
    granted = {job: int(o) for job, o in enumerate(grants.option.tolist()) if o >= 0}
    waiting = [job for job in dict.fromkeys(candidates.position.tolist()) if job not in granted]
    head_pools = {int(options.pool[o]) for o in options.by_kind[table.kind[waiting[0]]].tolist() if o >= 0} if waiting else set()
    for job in waiting[1:]:
        for option in options.by_kind[table.kind[job]].tolist():
            if option >= 0 and int(options.pool[option]) not in head_pools:
                assert options.milligpus[option] > grants.left[options.pool[option]]


@st.composite
def elastic_instances(draw: st.DrawFn) -> tuple[Options, Any, Candidates, np.ndarray]:
    """Jobs of several sizes, some of which have GPUs by an option, and whatever moving and resizing cost."""
    pools, kinds = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rows = []
    for kind in range(kinds):
        sizes = draw(st.lists(st.tuples(st.integers(0, pools - 1), st.integers(1, 6)), min_size=1, max_size=8, unique=True))
        rows += [(kind, pool, gpus * MILLI, draw(st.sampled_from([0.01, 0.5, 1.0, 2.0, 9.0])), 0.0) for pool, gpus in sizes]
    options = Options.of(rows, kinds)
    jobs = draw(st.integers(0, 12))

    def column(values: st.SearchStrategy[float]) -> np.ndarray:
        return np.array(draw(st.lists(values, min_size=jobs, max_size=jobs)), dtype=np.float64)

    kind = np.array(draw(st.lists(st.integers(0, kinds - 1), min_size=jobs, max_size=jobs)), dtype=np.int64)
    held = [draw(st.sampled_from([-1, *np.flatnonzero(options.kind == each).tolist()])) for each in kind.tolist()]
    table = SimpleNamespace(
        rows=np.arange(jobs),
        options=options,
        kind=kind,
        granted_option=np.array(held, dtype=np.int64),
        seconds_left=column(st.sampled_from([0.0, 1.0, 50.0, 1e4])),
        move_seconds=column(st.sampled_from([0.0, 10.0, 100.0])),
        resize_seconds=column(st.sampled_from([0.0, 5.0, np.inf])),
        horizon_seconds=3600.0,
        protected=np.zeros(jobs, dtype=bool),
        pool_order=lambda type_agnostic: np.arange(pools)[::-1],
    )
    order = np.array(draw(st.permutations(range(jobs))), dtype=np.int64)
    capacity = np.array(draw(st.lists(st.integers(0, 12), min_size=pools, max_size=pools)), dtype=np.int64)
    preference = Preference(draw(st.booleans()), draw(st.booleans()))
    return options, table, Candidates(order, None, draw(st.booleans()), preference=preference), capacity


@given(elastic_instances())
@examples(1500)
def test_first_fit_equals_the_walk_through_all_options(instance: tuple[Options, Any, Candidates, np.ndarray]) -> None:
    options, table, candidates, capacity = instance
    grants = grant(candidates, table, capacity)
    written = expand_options(candidates, table)
    missing = np.setdiff1d(candidates.position, written.position)
    expected, left = walk(options, table.kind, written, capacity)
    if not (candidates.blocking and len(missing)):  # a job without any option in the list blocks nobody in the walk
        assert {job: int(o) for job, o in enumerate(grants.option.tolist()) if o >= 0} == expected
        assert grants.left.tolist() == left.tolist()
