"""A measurement of a job counts for the option with which it ran, whatever it has been granted since."""

import numpy as np

from rota.model.allocation import Ranking
from rota.model.commands import Resize, Suspend
from rota.model.events import HoldRequested, Measured
from rota.model.view import View
from tests.unit.core.helpers import Bench, of_type


class GrowsLater:
    """All run with two GPUs each; after a while only the second job does, with four."""

    def allocate(self, view: View) -> Ranking:
        options, kind = view.options, view.jobs.kind
        wanted = [int(np.flatnonzero((options.kind == each) & (options.gpus == 2))[0]) for each in kind]
        if view.now_s < 100.0:
            return Ranking(order=np.arange(len(view.jobs)), option=np.array(wanted))
        grown = int(np.flatnonzero((options.kind == kind[1]) & (options.gpus == 4))[0])
        return Ranking(order=np.array([1]), option=np.array([wanted[0], grown]))


def one(job: int, since_s: float, now_s: float, rate: float) -> Measured:
    since, rates, busy, unknown = (np.array([value]) for value in (since_s, rate, 0.5, np.nan))
    return Measured(np.array([job]), np.array([1]), since, rates, busy, unknown, unknown, now_s)


def test_while_a_resize_waits_the_size_that_runs_is_measured() -> None:
    bench = Bench("4xV100", GrowsLater())
    bench.obey(bench.submit(gpus=2, steps=1000.0))
    bench.obey(bench.submit(profile="a", gpus=2, gpu_counts=(2, 4), can_resize=True, steps=100_000.0))
    bench.obey(bench.submit(gpus=2, steps=1000.0))
    commands = bench.tell(HoldRequested(2, 400.0), at_s=400.0)
    assert of_type(commands, Suspend) and not of_type(commands, Resize)
    assert len(bench.state.jobs.desired[1]) == 4, "it is to grow once the other has left"
    bench.tell(one(1, 0.0, 401.0, 3.0), at_s=401.0)
    table, options = bench.state.jobs.table, bench.state.beliefs.options
    assert options.gpus[table.alone_option[1]] == 2 and table.alone_rate[1] == 3.0
    assert {options.gpus[option]: rate for option, rate in bench.state.beliefs.alone.items()} == {2: 3.0}
