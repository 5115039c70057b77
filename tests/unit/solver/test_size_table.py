"""The table of sizes, with each rule for batch sizes."""

from typing import Any

import numpy as np
import pytest

from rota.beliefs.rates import Rates
from rota.model.view import View
from rota.policies.srsf import Srsf
from rota.solver.size_table import BatchRule, SizeTable
from tests.unit.core.helpers import Bench

TABLE = {("net", "V100", gpus): 10.0 * gpus**0.5 for gpus in (1, 2, 4)} | {("net", "K80", gpus): 2.0 * gpus for gpus in (1, 2, 4)}
BATCHES = {("net", "V100", gpus, size): 640.0 * gpus**0.8 / (size + 64) for gpus in (1, 2, 4) for size in (64, 256)}
RATES = Rates(table=TABLE, batches=BATCHES)


def view_of(*specs: dict[str, Any], cluster: str = "4xV100 + 4xK80", rates: Rates = RATES) -> View:
    bench = Bench(cluster, Srsf(), rates)
    for spec in specs:
        bench.submit(steps=100.0, **spec)
    return bench.core.view()


def table_of(view: View, rule: BatchRule) -> SizeTable:
    return SizeTable.of(view.options, np.unique(view.jobs.kind), len(view.capacity), rule)


ELASTIC = {"profile": "net", "gpus": 2, "gpu_counts": (1, 4), "batch_size": 128, "batch_sizes": (64, 256)}


@pytest.mark.parametrize(
    ("rule", "by_gpus"),
    [("requested", {1: 128, 2: 128, 4: 128}), ("largest", {1: 64, 2: 128, 4: 256})],
)
def test_which_batch_size(rule: BatchRule, by_gpus: dict[int, int]) -> None:
    view = view_of(ELASTIC)
    table = table_of(view, rule)
    for pool in range(2):
        rows = {gpus: table.option[0, pool, gpus] for gpus in by_gpus}
        assert {gpus: view.options.batch_size[row] for gpus, row in rows.items()} == by_gpus
        assert all(view.options.pool[row] == pool and view.options.gpus[row] == gpus for gpus, row in rows.items())


def test_the_best_is_the_fastest() -> None:
    view = view_of(ELASTIC)
    table, options = table_of(view, "best"), view.options
    for row in range(len(options.kind)):
        cell = table.rate[0, options.pool[row], options.gpus[row]]
        assert cell >= options.rate[row]
    assert (table.rate[0][table.option[0] >= 0] == options.rate[table.option[0][table.option[0] >= 0]]).all()


def test_sizes_that_a_job_does_not_accept_are_not_there() -> None:
    table = table_of(view_of(ELASTIC), "best")
    assert (table.option[0, :, [0, 3]] == -1).all() and (table.rate[0, :, [0, 3]] == 0).all()
    rigid = table_of(view_of({"profile": "net", "gpus": 2}), "largest")
    assert ((rigid.option[0] >= 0).sum(axis=1) == 1).all() and (rigid.option[0, :, 2] >= 0).all()


def test_where_no_batch_keeps_what_each_gpu_has_the_smallest_is_taken() -> None:
    """Or else a job of one batch size could not shrink, and not run where there are fewer GPUs than it asked for."""
    view = view_of({"profile": "net", "gpus": 4, "gpu_counts": (1, 2), "batch_size": 128})
    table = table_of(view, "largest")
    assert (table.option[0, :, [1, 2, 4]] >= 0).all()


def test_a_part_of_a_gpu_counts_as_a_whole_one() -> None:
    view = view_of({"gpus": 0.5}, {"gpus": 1})
    for rule in ("best", "largest", "requested"):
        table = table_of(view, rule)
        assert table.option.shape == (2, 2, 2) and (table.option[:, :, 1] >= 0).all()


def test_only_the_kinds_that_are_asked_for_in_their_order() -> None:
    view = view_of({"gpus": 1}, ELASTIC, {"gpus": 2})
    kinds = view.jobs.kind[[2, 1]]
    table = SizeTable.of(view.options, kinds, 2)
    assert table.option.shape[0] == 2 and (view.options.kind[table.option[0][table.option[0] >= 0]] == kinds[0]).all()
    assert (view.options.kind[table.option[1][table.option[1] >= 0]] == kinds[1]).all()
