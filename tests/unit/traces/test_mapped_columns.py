"""Any CSV file as a trace, by naming its columns."""

from pathlib import Path

import pytest

from rota.errors import InputError, OptionError
from rota.model.job import Arrival, JobSpec
from rota.traces.mapped_columns import mapped_format, read_columns
from rota.traces.read_trace import read_trace
from rota.traces.trace import Trace
from tests.shared import SHARED
from tests.unit.traces.test_read_trace import write

USERS = SHARED / "data" / "users"
TEXT = "When,Owner,Group,Cards,Runtime,Type\n2026-01-05 09:00:00,ana,vision,4,3600.5,a100|V100\n2026-01-05T08:00:00Z,leo,,1,60,\n"


def read(path: Path, columns: str) -> Trace:
    return read_trace(path, format=mapped_format(read_columns(columns)))


def test_a_file_with_dates(tmp_path: Path) -> None:
    names = "submit=When,user=Owner,tenant=Group,gpus=Cards,seconds=Runtime,accelerator=Type"
    assert read(write(tmp_path, TEXT), names).arrivals == (
        Arrival(0.0, JobSpec(name="line-3", gpus=1, steps=60.0, user="leo")),
        Arrival(3600.0, JobSpec(name="line-2", gpus=4, steps=3600.5, user="ana", tenant="vision", accelerators=("A100", "V100"))),
    )


def test_a_file_with_intervals_or_with_starts_and_ends(tmp_path: Path) -> None:
    path = write(tmp_path, "gap,g,s,e\n5,1,10,30\n7,0,0,0\n8,2,100,100\n9,2.0,100,160\n")
    trace = read(path, "interval=gap,gpus=g,start=s,end=e")
    assert [(each.submitted_s, each.spec.gpus, each.spec.steps) for each in trace.arrivals] == [(0.0, 1, 20.0), (24.0, 2, 60.0)]
    assert [each.why for each in trace.skipped] == ["requests no GPU", "ran for no time"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("submit=When", "needs gpus"),
        ("gpus=Cards,seconds=Runtime", "needs submit or interval"),
        ("submit=When,interval=When,gpus=Cards,seconds=Runtime", "and not both"),
        ("submit=When,gpus=Cards", "needs seconds, or both start and end"),
        ("submit=When,gpus=Cards,start=Runtime", "needs seconds, or both start and end"),
        ("submit=When,gpu=Cards,seconds=Runtime", "'gpu' is not a name. Closest: gpus"),
        ("submit=When,gpus=Cards,seconds", "is not NAME=COLUMN"),
        ("submit=When,gpus=Cards,gpus=Cards,seconds=Runtime", "gpus is given twice"),
    ],
)
def test_columns_that_cannot_be_used_are_one_clear_line(columns: str, message: str) -> None:
    with pytest.raises(OptionError, match="--columns") as caught:
        read_columns(columns)
    assert message in caught.value.message and caught.value.hint


def test_intervals_do_not_go_with_a_filter() -> None:
    with pytest.raises(OptionError, match="interval needs every line"):
        read_columns("interval=a,gpus=b,seconds=c", filtered=True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Cards", "cards", r":1  Cards — the columns format needs this column. Closest: cards"),
        (",4,", ",four,", r":2  Cards: 'four' — is not a finite number"),
        ("3600.5", "-1", r":2  Runtime: '-1' — must be at least 0"),
        ("2026-01-05 09:00:00", "2026-13-05", r":2  When: '2026-13-05' — is not a date"),
        ("2026-01-05 09:00:00", "monday", r":2  When: 'monday' — is not a finite number"),
    ],
)
def test_a_fault_names_its_line_and_its_column(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(write(tmp_path, TEXT.replace(old, new, 1)), "submit=When,gpus=Cards,seconds=Runtime")


@pytest.mark.skipif(not USERS.is_dir(), reason="the reference data folder is not beside the checkout")
def test_a_trace_with_real_users() -> None:
    trace = read(USERS / "philly_users.csv", "interval=interval,user=user,gpus=gpu_num,seconds=run_time")
    assert len(trace) + len(trace.skipped) == 15_000
    assert len({each.spec.user for each in trace.arrivals}) == 136
    assert trace.arrivals[-1].submitted_s / 86_400 == pytest.approx(57.6, abs=0.1)
