"""A job accepts one size or several, each with its own option."""

import math
from typing import Any

import numpy as np
import pytest

from rota.beliefs.make_options import grown, make_options, renewed, why_never
from rota.beliefs.rates import UNPROFILED_UNCERTAINTY, MeasuredRates, Rates
from rota.errors import OptionError
from rota.model.cluster import Cluster
from rota.model.job import Demand, JobSpec
from rota.model.options import Kind, OptionRow, Options
from rota.model.reasons import Reason


def test_what_a_job_asks_for_is_among_the_sizes_it_accepts() -> None:
    spec = JobSpec(gpus=4, gpu_counts=(8, 1, 8), batch_size=64, batch_sizes=(32,))
    assert spec.gpu_counts == (1, 4, 8) and spec.batch_sizes == (32, 64)
    assert spec.demand.elastic
    assert spec.demand.sizes() == [(4000, 64), (1000, 32), (1000, 64), (4000, 32), (8000, 32), (8000, 64)]


def test_one_size_is_not_elastic_however_it_is_written() -> None:
    spec = JobSpec(gpus=2, gpu_counts=(2,), batch_size=64, batch_sizes=(64,))
    assert spec.demand == Demand(2, batch_size=64) and not spec.demand.elastic
    assert spec.demand.sizes() == [(2000, 64)]
    assert JobSpec(gpus=0.25).demand.sizes() == [(250, 0)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0},
        {"steps": math.inf},
        {"steps": -1.0},
        {"epoch_steps": 0.0},
        {"deadline_seconds": math.inf},
        {"slo": 0.0},
        {"gpu_gib": 0.0},
        {"least_gib": 3.0, "gpu_gib": 2.0},
        {"parked_gib": math.inf},
    ],
)
def test_a_number_that_would_mean_unknown_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError) as refused:
        JobSpec(**wrong)
    assert refused.value.field == next(iter(wrong))
    unknown = JobSpec(**dict.fromkeys(wrong))
    assert unknown == JobSpec(), "None is the default of each"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"gpus": 0.5, "gpu_counts": (1, 2)}, "fraction of a GPU"),
        ({"gpu_counts": (0,)}, "whole numbers from 1"),
        ({"gpu_counts": (1.5,)}, "whole numbers from 1"),
        ({"batch_sizes": (32,)}, "needs batch_size"),
        ({"batch_size": -1}, "whole number from 1"),
        ({"batch_size": 64, "batch_sizes": (0,)}, "whole numbers from 1"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        JobSpec(**wrong)  # type: ignore[arg-type]


CLUSTER = Cluster.parse("1x(8xV100) + 1x(2xK80)")
ELASTIC = Kind("", Demand(4, (1, 2, 4, 8)))


def test_each_size_that_fits_a_pool_is_an_option() -> None:
    options = make_options([ELASTIC, Kind("", Demand(1))], CLUSTER, Rates(speeds={"V100": 1.0, "K80": 0.25}))
    v100, k80 = CLUSTER.pools.index("V100"), CLUSTER.pools.index("K80")
    found = {
        (pool, gpus): rate
        for pool, gpus, rate, kind in zip(options.pool, options.gpus, options.rate, options.kind, strict=True)
        if kind == 0
    }
    assert found == {(v100, 4): 1.0, (v100, 1): 0.25, (v100, 2): 0.5, (v100, 8): 2.0, (k80, 1): 0.0625, (k80, 2): 0.125}
    assert options.elastic and options.gpus[options.best[0]] == 8
    usual = {
        (int(options.pool[row]), int(options.gpus[row])) for row in np.flatnonzero(options.default_size & (options.kind == 0))
    }
    assert usual == {(v100, 4), (k80, 1)}, "what it asked for, or the first it accepts where that does not fit"
    assert not make_options([Kind("", Demand(1))], CLUSTER, Rates()).elastic


def test_only_usual_sizes_have_an_account_until_another_is_used() -> None:
    options = make_options([ELASTIC], CLUSTER, Rates())
    assert options.share_columns == 2 and sorted(options.share_column[options.default_size].tolist()) == [0, 1]
    row = int(np.flatnonzero(options.share_column < 0)[1])
    more = options.with_share_columns(np.array([row, row]))
    assert more.share_column[row] == 2 and more.by_share_column[0, 2] == row and more.share_columns == 3
    assert more.with_share_columns(np.array([row])) is more
    again = Options.of(list(more.rows()), 1)
    assert (again.share_column == more.share_column).all() and (again.by_share_column == more.by_share_column).all()


def test_accounts_and_rows_stay_when_kinds_nodes_or_rates_come() -> None:
    rates = Rates(table={("a", "V100", 1): 1.0, ("a", "V100", 4): 3.0})
    kinds = [Kind("a", Demand(1, (1, 4)))]
    before = make_options(kinds, Cluster.parse("1x(4xV100)"), rates)
    before = before.with_share_columns(np.flatnonzero(before.share_column < 0))
    kinds.append(Kind("a", Demand(2, (2, 4))))
    more = make_options(kinds, Cluster.parse("1x(4xV100)"), rates, before=before)
    assert (more.share_column[: len(before)] == before.share_column).all() and (more.gpus[: len(before)] == before.gpus).all()
    wider = grown(more, kinds, Cluster.parse("1x(4xV100) + 1x(8xP100)"), rates, colocation=False)
    assert (wider.share_column[: len(more)] == more.share_column).all()
    news = renewed(
        wider, kinds, Cluster.parse("1x(4xV100) + 1x(8xP100)"), MeasuredRates(table={("a", "V100", 4): 2.0}).over(rates), {0, 1}
    )
    assert (news.share_column == wider.share_column).all()
    assert news.rate[int(np.flatnonzero((news.kind == 0) & (news.gpus == 4))[0])] == 2.0


def test_jobs_share_gpus_at_the_size_they_asked_for() -> None:
    rates = Rates(
        table={("a", "V100", 1): 1.0, ("a", "V100", 2): 1.8, ("b", "V100", 1): 1.0}, pairs={("a", "b", "V100", 1): (0.7, 0.8)}
    )
    options = make_options([Kind("a", Demand(1, (1, 2))), Kind("b", Demand(1))], Cluster.parse("2xV100"), rates, colocation=True)
    shared = np.flatnonzero(options.partner_kind >= 0)
    assert sorted(zip(options.kind[shared].tolist(), options.gpus[shared].tolist(), strict=True)) == [(0, 1), (1, 1)]
    assert options.default_size[shared].all() and (options.share_column[shared] >= 0).all()
    for row in shared.tolist():
        assert options.partner_row[options.partner_row[row]] == row
        assert options.gpus[options.alone[row]] == 1


def test_a_step_means_the_same_at_every_batch_size() -> None:
    demand = Demand(1, (1, 2), 64, (32, 64, 128))
    rates = Rates(table={("a", "V100", 1): 10.0}, batches={("a", "V100", 1, 128): 7.0})
    assert rates.rate_of("a", demand, "V100", 1, 64) == (10.0, 0.0)
    assert rates.rate_of("a", demand, "V100", 1, 128) == (14.0, 0.0), "7 steps of 128 examples are 14 of 64"
    assert rates.rate_of("a", demand, "V100", 1, 32) == (10.0, UNPROFILED_UNCERTAINTY), "as many examples a second"
    learned = rates.batch_measurement("a", demand, "V100", 1, 9.0, 32).over(rates)
    assert learned.rate_of("a", demand, "V100", 1, 32) == (9.0, 0.0)


def test_an_unknown_job_is_as_fast_as_it_has_gpus() -> None:
    demand = Demand(4, (1, 4, 8))
    rates = Rates(speeds={"V100": 2.0})
    assert [rates.rate_of("", demand, "V100", gpus)[0] for gpus in (1, 4, 8)] == [0.5, 2.0, 4.0]
    assert rates.rate_of("", Demand(4), "V100", 4) == rates.rate("", "V100", 4)


def test_a_job_that_fits_at_its_smallest_size_can_run() -> None:
    assert why_never(Kind("", Demand(16, (9, 16))), CLUSTER)[0] is Reason.UNSATISFIABLE
    options = make_options([Kind("", Demand(16, (8, 16)))], CLUSTER, Rates())
    assert options.gpus.tolist() == [8] and options.best[0] == 0


def test_rows_can_be_built_by_hand() -> None:
    options = Options.of([(0, 0, 1000, 1.0, 0.0), OptionRow(0, 0, 2000, 1.5, 0.0)], 1)
    assert options.elastic and options.best[0] == 1 and options.share_column.tolist() == [0, -1]
