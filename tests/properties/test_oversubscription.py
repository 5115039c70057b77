"""Over-subscription: no job starves, and memory of hosts and GPUs is never exceeded."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rota.beliefs.rates import Rates
from rota.compose.prepare import prepare_study
from rota.compose.study import make_study
from rota.model.job import Arrival, JobSpec
from rota.sim.record import Record
from rota.traces.trace import Trace
from tests.checked import checked
from tests.examples import examples

SLICE = 60.0
PATIENCE = 10

PAIRS = {("a", "a", "V100", 1): (0.8, 0.8), ("a", "b", "V100", 1): (0.9, 0.4), ("b", "b", "V100", 1): (0.3, 0.3)}
RATES = Rates(table={(name, "V100", gpus): float(gpus) for name in "ab" for gpus in (1, 2, 4)}, pairs=PAIRS)

jobs = st.lists(
    st.tuples(
        st.floats(0.0, 2000.0),
        st.sampled_from((1, 1, 1, 2, 4)),
        st.sampled_from(("a", "b", "")),
        st.sampled_from((0.0, 2.0, 9.0, 15.0)),
        st.booleans(),
    ),
    min_size=1,
    max_size=9,
)


def simulated(drawn: list[Any], steps: float, **fields: Any) -> Record:
    """A run that is checked at every step: `validate` looks at the memory, too."""
    arrivals = tuple(
        Arrival(at_s, JobSpec(gpus=gpus, profile=name, steps=steps * gpus, gpu_gib=gib or None, can_park=park))
        for at_s, gpus, name, gib, park in sorted(drawn)
    )
    given = {"trace": Trace("drawn", "", arrivals), "rates": RATES, "preset": "ideal", **fields}
    made = prepare_study(make_study(given)).engine(None)
    return checked(made).run()


@examples(20)
@given(jobs, st.sampled_from(("4xV100", "2x(4xV100)", "1x(2xV100) + 1x(4xV100)")))
def test_every_job_has_its_turn(drawn: list[Any], cluster: str) -> None:
    """Jobs take hours: one that waited for another to end would wait much longer than this."""
    record = simulated(drawn, 8_000.0, cluster=cluster, policy="gandiva:slice_seconds=60", park="link")
    waited = record.first_run_s - record.submitted_s
    assert (waited <= SLICE * (PATIENCE + 2) * (len(drawn) + 1)).all()


@examples(30)
@given(jobs, st.sampled_from(("gandiva", "srsf", "las", "tiresias")), st.sampled_from(("link", "driver")))
def test_memory_is_never_exceeded(drawn: list[Any], policy: str, park: str) -> None:
    record = simulated(drawn, 600.0, cluster="2x(2xV100) + 1x(4xV100)", policy=policy, park=park, tactics="pack")
    assert (record.finished_s > 0).all()
