"""The state: five records, each copied with its own containers and preserved by a snapshot."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from rota.core.snapshot import make_codec
from rota.core.state.job_table import JobTable
from rota.core.state.state import State
from rota.model.events import CancelRequested, Exited, HoldRequested, NodeReported, Outcome, TimerFired
from rota.model.occupancy import Occupancy
from tests.unit.core.helpers import Bench

RECORDS = ("jobs", "nodes", "cycle", "beliefs")


def busy() -> Bench:
    """Two jobs run, one waits, one is held, and there is one of everything that a record may remember."""
    bench = Bench("2x(2xV100)", learn_variability=True)
    for _ in range(3):
        bench.obey(bench.submit(gpus=2, steps=100.0))
    bench.obey(bench.submit(gpus=1, steps=5.0, tenant="other"))
    bench.obey(bench.tell(HoldRequested(3, True, 1.0), at_s=1.0))
    return bench


def contents(state: State) -> Iterator[tuple[str, Any]]:
    for record in RECORDS:
        for name, value in vars(getattr(state, record)).items():
            yield f"{record}.{name}", value


def arrays(value: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(value, JobTable):
        return [getattr(value, name) for name in JobTable.COLUMNS]
    if isinstance(value, Occupancy):
        return [value.holder]
    return [value] if isinstance(value, np.ndarray) else []


def test_a_copy_shares_nothing_that_may_change() -> None:
    state = busy().state
    twin = dict(contents(state.copy()))
    seen = 0
    for name, value in contents(state):
        if isinstance(value, dict | set | JobTable | Occupancy):
            assert twin[name] is not value, f"{name} is shared with the copy"
        for mine, other in zip(arrays(value), arrays(twin[name]), strict=True):
            seen += 1
            assert not np.shares_memory(mine, other) or not mine.flags.writeable, f"{name} is shared with the copy"
    assert seen > 30


def test_what_a_copy_shares_cannot_be_written() -> None:
    state = busy().state
    assert state.copy().jobs.rows is state.jobs.rows and not state.jobs.rows.flags.writeable


def test_a_snapshot_holds_every_field_of_every_record_but_memos() -> None:
    bench = busy()
    plain = bench.core.snapshot(make_codec())
    for record in RECORDS:
        fields = {field.name for field in dataclasses.fields(getattr(bench.state, record)) if field.init}
        assert set(plain[record]) == {name for name in fields if not name.startswith("_")}
    assert bench.state.beliefs.options.by_kind.shape[0] == len(bench.state.jobs.kind_of) == 2


def test_a_snapshot_restores_each_field_with_its_type() -> None:
    bench = busy()
    words = make_codec()
    plain = bench.core.snapshot(words)
    bench.core.restore(plain, words)
    assert bench.core.snapshot(words) == plain
    fresh = dict(contents(busy().state))
    for name, value in contents(bench.state):
        if not name.split(".")[1].startswith("_"):
            assert type(value) is type(fresh[name]), name


def test_a_snapshot_from_before_version_16_has_sets_of_jobs_instead_of_bits() -> None:
    bench = Bench("3x(2xV100)", node_timeout_seconds=50.0)
    for gpus in (2, 2, 2, 1, 1):
        bench.obey(bench.submit(gpus=gpus, steps=100.0))
    bench.tell(CancelRequested(0, 1.0), at_s=1.0)
    bench.tell(Exited(1, 1, 2.0, Outcome.FAILED, 0.0, setback="it did not save"), at_s=2.0)
    bench.tell(HoldRequested(3, True, 3.0), at_s=3.0)
    bench.tell(NodeReported(0, 0, 40.0), NodeReported(2, 0, 40.0), at_s=40.0)
    bench.tell(TimerFired(60.0), at_s=60.0)
    codec, jobs = make_codec(), bench.state.jobs
    assert jobs.cancelling == {0} and jobs.held == {3} and jobs.is_unreachable(2)
    plain = bench.core.snapshot(codec)
    blocks = codec.decode(plain["jobs"]["table"])["blocks"]
    before = {"held": [3], "doomed": [0], "cancelling": [0], "barred": sorted(jobs.unschedulable_holders)}
    old = {**plain, "version": 15, "jobs": {**plain["jobs"], **{name: codec.encode(each) for name, each in before.items()}}}
    table = {name: each for name, each in codec.decode(plain["jobs"]["table"]).items() if name != "blocks"}
    old["jobs"]["table"] = codec.encode({**table, "schedulable": blocks == 0})
    bench.core.restore(old, codec)
    assert bench.core.snapshot(codec) == plain and bench.state.jobs.unschedulable_holders == jobs.unschedulable_holders
