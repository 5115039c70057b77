"""The job table: rare columns take no room until they are written to, and then behave like the others."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.move_costs import MoveCosts
from rota.core.scheduler import Scheduler
from rota.core.snapshot import make_codec
from rota.core.state.job_table import JobTable
from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.placers.packed import Packed
from rota.policies.tiresias import Tiresias
from rota.sim.engine import Engine
from rota.sim.physics import Physics
from tests.unit.core.helpers import Bench

STEPS = st.lists(
    st.one_of(
        st.just(("add",)),
        st.tuples(st.just("write"), st.sampled_from(JobTable.RARE), st.integers(0, 50), st.integers(0, 1)),
        st.tuples(st.just("keep"), st.integers(1, 3)),
        st.just(("copy",)),
    ),
    max_size=30,
)


@given(steps=STEPS)
def test_rare_columns_hold_what_was_written_and_else_their_default(steps: list[tuple[Any, ...]]) -> None:
    table = JobTable(capacity=2)
    rows: list[dict[str, Any]] = []
    for step in steps:
        if step[0] == "add":
            assert table.add() == len(rows)
            rows.append({})
        elif step[0] == "write" and rows:
            _, name, row, value = step
            table.own(name)[row % len(rows)] = value
            rows[row % len(rows)][name] = value
        elif step[0] == "keep" and rows:
            kept = np.arange(0, len(rows), step[1])
            table.keep(kept, 2 * len(rows))
            rows = [rows[row] for row in kept.tolist()]
        elif step[0] == "copy":
            before, table = table, table.copy()
            for name in JobTable.RARE:
                if getattr(before, name).flags.writeable:
                    before.own(name)[:] = 9  # this must not be seen in the copy
        assert table.size == len(rows) and all(len(getattr(table, name)) >= table.size for name in JobTable.COLUMNS)
        for name in JobTable.RARE:
            column = JobTable.COLUMNS[name]
            wanted = np.array([row.get(name, column.default) for row in rows], dtype=column.dtype)
            np.testing.assert_array_equal(getattr(table, name)[: table.size], wanted)


def test_a_copy_shares_what_was_never_written_and_no_more() -> None:
    table = JobTable()
    table.add()
    twin = table.copy()
    twin.own("colocated_with")[0] = 7
    assert table.colocated_with[0] == -1 and not table.colocated_with.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        table.colocated_with[0] = 7


def test_a_plain_run_writes_to_no_rare_column() -> None:
    jobs = [Arrival(10.0 * number, JobSpec(gpus=1 + number % 4, steps=100.0 + 40.0 * number)) for number in range(30)]
    core = Scheduler(Cluster.parse("2x(4xV100)"), Packed(), costs=MoveCosts(launch_seconds=5.0))
    record = Engine(core, Tiresias(thresholds=(300.0,)), Physics(), jobs).run()
    assert record.ended == 30 and record.suspensions.sum() > 0
    assert not [name for name in JobTable.RARE if getattr(core.state.jobs.table, name).flags.writeable]


def test_a_snapshot_restores_rare_columns_as_they_were() -> None:
    bench = Bench("2x(2xV100)")
    bench.obey(bench.submit(gpus=1, steps=100.0))
    bench.obey(bench.submit(gpus=1, steps=100.0))
    bench.state.jobs.table.own("moved_s")[1] = 5.0
    words = make_codec()
    twin = Bench("2x(2xV100)")
    twin.core.restore(bench.core.snapshot(words), words)
    table = twin.state.jobs.table
    assert table.moved_s[:2].tolist() == [-np.inf, 5.0] and not table.colocated_with.flags.writeable
    assert twin.core.snapshot(words) == bench.core.snapshot(words)
