"""Writing Rota's own format: a written trace reads back the same, and what the format cannot hold is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import TraceError
from rota.model.job import Arrival, JobSpec
from rota.traces.read_trace import read_trace
from rota.traces.synthetic import named
from rota.traces.trace import Trace
from rota.traces.write_trace import write_trace
from tests.examples import examples

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20).map(str.strip)
NUMBERS = st.floats(0, 1e15)
SPECS = st.builds(
    JobSpec,
    name=TEXT,
    gpus=st.integers(1, 1_000_000),
    gpu_counts=st.lists(st.integers(1, 64), max_size=4).map(tuple),
    batch_size=st.integers(1, 4096),
    batch_sizes=st.lists(st.integers(1, 4096), max_size=4).map(tuple),
    can_resize=st.booleans(),
    steps=NUMBERS,
    epoch_steps=st.none() | st.floats(0, 1e15, exclude_min=True),
    profile=TEXT,
    accelerators=st.lists(st.from_regex(r"[A-Z0-9.-]{1,6}", fullmatch=True), max_size=3, unique=True).map(tuple),
    weight=st.floats(0, 1e15, exclude_min=True),
    tenant=TEXT,
    user=TEXT,
    retries=st.integers(0, 1_000_000),
)
TRACES = st.lists(st.builds(Arrival, NUMBERS, SPECS), min_size=1, max_size=8).map(lambda found: Trace.of("t", "made", found))


@examples(200, uses_fixtures=True)
@given(TRACES)
@pytest.mark.slow
def test_what_is_written_reads_back_the_same(tmp_path: Path, trace: Trace) -> None:
    path = tmp_path / "out.csv"
    write_trace(trace, path)
    read = read_trace(path)
    assert read.arrivals == trace.arrivals
    assert read.format == "rota"


def test_a_tenant_is_a_path_of_names_without_blanks_around_them(tmp_path: Path) -> None:
    job = JobSpec(steps=60.0, tenant="/ vision //pre training/")
    assert job.tenant == "vision/pre training"
    write_trace(Trace("t", "made", (Arrival(0.0, job),)), tmp_path / "out.csv")
    assert read_trace(tmp_path / "out.csv").arrivals[0].spec == job


def test_columns_that_say_nothing_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    jobs = (Arrival(0.0, JobSpec(name="a, b", steps=60.0)), Arrival(0.1, JobSpec(steps=0.5, weight=2.0, accelerators=("A100",))))
    write_trace(Trace("t", "made", jobs), str(path))
    assert path.read_text() == 'submit_time,gpus,duration,name,accelerators,weight\n0,1,60,"a, b",,\n0.1,1,0.5,,A100,2\n'


def test_a_profile_makes_it_steps(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    write_trace(Trace("t", "made", (Arrival(0.0, JobSpec(steps=60.0, profile="bert")),)), path)
    assert path.read_text() == "submit_time,gpus,steps,name,profile\n0,1,60,,bert\n"


def test_a_generated_trace_can_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "demo.csv"
    write_trace(named("demo"), path)
    assert read_trace(path).arrivals == named("demo").arrivals


REFUSED = [
    (JobSpec(steps=1.0, name="two\nlines"), "name", "two\nlines"),
    (JobSpec(steps=1.0, user="a\rb"), "user", "a\rb"),
    (JobSpec(steps=1.0, tenant="\0"), "tenant", "\0"),
    (JobSpec(steps=1.0, name="\ud800"), "name", "\ud800"),
    (JobSpec(steps=1.0, name="x" * 10_001), "name", "x" * 60 + "…"),
    (JobSpec(steps=1.0, name=" blank before"), "name", " blank before"),
    (JobSpec(), "duration", ""),
    (JobSpec(steps=1.0, retries=-1), "retries", "-1"),
    (JobSpec(steps=1.0, accelerators=("V100", "V100")), "accelerators", ("V100", "V100")),
    (JobSpec(steps=1.0, accelerators=("A B",)), "accelerators", "A B"),
    (JobSpec(steps=1.0, can_park=True), "can_park", True),
    (JobSpec(steps=1.0, parked_gib=2.0), "parked_gib", 2.0),
]


@pytest.mark.parametrize(
    ("spec", "field", "value"), REFUSED, ids=lambda part: part if isinstance(part, str) and part.isalpha() else ""
)
def test_what_the_format_cannot_hold_is_refused(tmp_path: Path, spec: JobSpec, field: str, value: object) -> None:
    path = tmp_path / "out.csv"
    with pytest.raises(TraceError) as caught:
        write_trace(Trace("t", "made", (Arrival(0.0, JobSpec(steps=1.0)), Arrival(0.0, spec))), path)
    error = caught.value
    assert (error.where, error.line, error.field, error.value) == (str(path), 3, field, value)
    assert error.hint
    assert not path.exists(), "nothing is written"


def test_an_empty_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no jobs to write") as caught:
        write_trace(Trace("t", "made", ()), tmp_path / "out.csv")
    assert caught.value.hint


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="does not exist") as caught:
        write_trace(named("demo"), tmp_path / "nowhere" / "out.csv")
    assert caught.value.where == str(tmp_path / "nowhere" / "out.csv")
    assert caught.value.hint
