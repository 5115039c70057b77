"""Trace order, and what is left out of a trace."""

import pytest

from rota.errors import TraceError
from rota.model.job import Arrival, JobSpec
from rota.traces.trace import SkippedRow, Trace


def arrivals(*pairs: tuple[float, int]) -> list[Arrival]:
    return [Arrival(at_s, JobSpec(name=f"j{i}", gpus=gpus, steps=1.0)) for i, (at_s, gpus) in enumerate(pairs)]


def names(trace: Trace) -> list[str]:
    return [arrival.spec.name for arrival in trace.arrivals]


def test_of_sorts_by_time_and_keeps_ties_as_they_stand() -> None:
    trace = Trace.of("t", "rota", arrivals((5, 1), (0, 1), (5, 1), (0, 1)), lines=[2, 3, 4, 5])
    assert names(trace) == ["j1", "j3", "j0", "j2"]
    assert trace.lines == (3, 5, 2, 4)


def test_arrivals_out_of_order_are_refused() -> None:
    with pytest.raises(TraceError, match="order of submission") as caught:
        Trace("t", "rota", tuple(arrivals((5, 1), (0, 1))))
    assert "Trace.of" in caught.value.hint


def test_oversized_jobs_are_counted_with_line_and_reason() -> None:
    trace = Trace.of("t", "rota", arrivals((0, 16), (1, 1), (2, 9), (3, 8)), lines=[2, 3, 5, 6])
    fitting = trace.without_oversized(lambda spec: spec.gpus <= 8)
    assert names(fitting) == ["j1", "j3"]
    assert fitting.lines == (3, 6)
    assert [skipped.line for skipped in fitting.skipped] == [2, 5]
    assert fitting.skipped[0].why == "requests 16 GPUs, which can never fit"
    assert [arrival.submitted_s for arrival in fitting.arrivals] == [1, 3], "submission times stay as they are"


def test_oversized_jobs_without_a_file_are_counted_by_number() -> None:
    spec = JobSpec(gpus=4, accelerators=("A100", "V100"))
    trace = Trace("t", "made", (Arrival(0.0, JobSpec()), Arrival(0.0, spec)), skipped=(SkippedRow(9, "earlier"),))
    fitting = trace.without_oversized(lambda spec: spec.gpus == 1)
    assert fitting.skipped == (SkippedRow(9, "earlier"), SkippedRow(2, "requests 4 GPUs of A100|V100, which can never fit"))


def test_a_trace_that_fits_is_returned_as_it_is() -> None:
    trace = Trace.of("t", "rota", arrivals((0, 1), (1, 1)))
    assert trace.without_oversized(lambda spec: True) is trace


def test_a_trace_of_which_nothing_fits_is_empty() -> None:
    trace = Trace.of("t", "rota", arrivals((0, 1), (1, 1))).without_oversized(lambda spec: False)
    assert len(trace) == 0 and len(trace.skipped) == 2


@pytest.mark.parametrize(("n", "kept"), [(1, 1), (3, 3), (4, 4), (100, 4)])
def test_first(n: int, kept: int) -> None:
    trace = Trace.of("t", "rota", arrivals((3, 1), (2, 1), (1, 1), (0, 1)), lines=[2, 3, 4, 5])
    assert names(trace.first(n)) == ["j3", "j2", "j1", "j0"][:kept]
    assert trace.first(n).lines == (5, 4, 3, 2)[:kept]


@pytest.mark.parametrize("n", [0, -1])
def test_first_of_nothing_is_refused(n: int) -> None:
    with pytest.raises(TraceError) as caught:
        Trace.of("t", "rota", arrivals((0, 1))).first(n)
    assert (caught.value.field, caught.value.value) == ("first", n)
    assert caught.value.hint
