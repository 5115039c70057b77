"""Every malformed trace gives one TraceError that names file, line, field and value, and says what to do next."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rota.errors import InputError, TraceError
from rota.traces.read import FORMATS, read_trace


@dataclass(frozen=True)
class Case:
    name: str
    text: str | bytes
    problem: str
    line: int | None = None
    field: str = ""
    value: object = None
    format: str = "auto"


def rota(row: str, header: str = "submit_time,gpus,duration") -> str:
    """A file whose third line is the one in question."""
    good = {"submit_time": "0", "gpus": "1", "duration": "5", "steps": "5", "retries": "0", "weight": "1"}
    return f"{header}\n{','.join(good.get(column, '') for column in header.split(','))}\n{row}\n"


def philly(row: str) -> str:
    return f"timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,a\n{row}\n"


def tiresias(row: str) -> str:
    return f"job_id,num_gpu,submit_time,duration\n0,1,0,5\n{row}\n"


LONG = "9" * 10_001
SHOWN = "9" * 60 + "…"

CASES = [
    # The file as a whole.
    Case("empty", "", "is empty"),
    Case("blank lines only", "\n  \n\r\n", "is empty"),
    Case("header only", "submit_time,gpus,duration\n", "no jobs", line=1),
    Case("header only, after a blank line", "\nsubmit_time,gpus,duration\n\n", "no jobs", line=2),
    Case("not UTF-8", b"submit_time,gpus,duration\n0,1,5\n0,1,\xff\n", "not UTF-8", 3, "byte", "0xff"),
    Case("not UTF-8 after a byte order mark", b"\xef\xbb\xbfsubmit_time,gpus\r\n\xc3(\n", "not UTF-8", 2, "byte", "0xc3"),
    Case("UTF-16", "submit_time,gpus,duration\n0,1,5\n".encode("utf-16"), "not UTF-8", 1, "byte", "0xff"),
    Case("NUL", "submit_time,gpus,duration\r0,1,\0\n", "NUL", 2, "byte", "0x00"),
    Case("quote never closed", rota('0,1,"5'), "cannot be split into cells", 3, "line", '0,1,"5'),
    Case("text behind a quote", rota('0,1,"5"x'), "cannot be split into cells", 3, "line", '0,1,"5"x'),
    Case("line break in a cell", rota('0,1,"5\n6"'), "cannot be split into cells", 3, "line", '0,1,"5'),
    Case("huge quoted cell", rota(f'0,1,"{"9" * 200_000}"'), "cannot be split into cells", 3, "line", '0,1,"' + "9" * 55 + "…"),
    # The header.
    Case("no format fits", "a,b\n1,2\n", "rota needs submit_time, gpus; philly needs", 1, "header", "a,b"),
    Case("other separator", "submit_time;gpus;duration\n0;1;5\n", "fits no format", 1, "header", "submit_time;gpus;duration"),
    Case("two formats fit", "job_id,num_gpu,gpus,submit_time,duration\n", "rota, tiresias", 1, "header"),
    Case("missing column", "submit_time,gpu,duration\n0,1,5\n", "Closest: gpu.", 1, "gpus", format="rota"),
    Case("missing column of philly", "timestamp,duration\n", "philly format needs", 1, "num_gpus", format="philly"),
    Case("missing column of tiresias", "job_id,num_gpu,duration\n", "tiresias format needs", 1, "submit_time", format="tiresias"),
    Case("unknown column", rota("", "submit_time,gpus,duration,Weigth"), "Closest: weight.", 1, "column", "Weigth"),
    Case("column without a name", rota("", "submit_time,gpus,duration,"), "no such column", 1, "column", ""),
    Case("duplicate column", rota("", "submit_time,gpus,duration, gpus"), "twice", 1, "column", "gpus"),
    Case("duration and steps", rota("", "submit_time,gpus,duration,steps"), "beside duration", 1, "column", "steps"),
    Case("neither duration nor steps", rota("", "submit_time,gpus"), "neither", 1, "column", "duration"),
    Case("profile without steps", rota("", "submit_time,gpus,duration,profile"), "needs steps", 1, "column", "profile"),
    Case("long column name", f"submit_time,gpus,{LONG}\n", "10,001 characters", 1, "column", SHOWN),
    # Rows of our own format.
    Case("too few cells", rota("0,1"), "the header has 3 columns", 3, "cells", 2),
    Case("too many cells", rota("0,1,5,6"), "the header has 3 columns", 3, "cells", 4),
    Case("line number after blank lines", "\n\nsubmit_time,gpus,duration\n\n0,1\n", "3 columns", 5, "cells", 2),
    Case("long cell", rota(f"0,1,{LONG}"), "10,001 characters", 3, "duration", SHOWN),
    Case("empty cell", rota("0,,5"), "is empty", 3, "gpus", ""),
    Case("not a number", rota("soon,1,5"), "not a finite number", 3, "submit_time", "soon"),
    Case("number with an underscore", rota("1_000,1,5"), "not a finite number", 3, "submit_time", "1_000"),
    Case("digits of another script", rota("٣,1,5"), "not a finite number", 3, "submit_time", "٣"),
    Case("negative submission", rota("-1,1,5"), "negative", 3, "submit_time", "-1"),
    Case("negative duration", rota("0,1,-0.5"), "negative", 3, "duration", "-0.5"),
    Case("nan", rota("0,1,nan"), "not a finite number", 3, "duration", "nan"),
    Case("inf", rota("0,1,inf"), "not a finite number", 3, "duration", "inf"),
    Case("overflow", rota("0,1,1e999"), "not a finite number", 3, "duration", "1e999"),
    Case("beyond all sense", rota("0,1,1e16"), "more than", 3, "duration", "1e16"),
    Case("negative steps", rota("0,1,-5", "submit_time,gpus,steps"), "negative", 3, "steps", "-5"),
    Case("no GPUs", rota("0,0,5"), "at least 1", 3, "gpus", "0"),
    Case("negative GPUs", rota("0,-2,5"), "negative", 3, "gpus", "-2"),
    Case("half a GPU", rota("0,0.5,5"), "not a whole number", 3, "gpus", "0.5"),
    Case("too many GPUs", rota("0,1000001,5"), "more than 1,000,000", 3, "gpus", "1000001"),
    Case("weight 0", rota("0,1,5,0", "submit_time,gpus,duration,weight"), "more than 0", 3, "weight", "0"),
    Case("negative weight", rota("0,1,5,-1", "submit_time,gpus,duration,weight"), "negative", 3, "weight", "-1"),
    Case("half a retry", rota("0,1,5,1.5", "submit_time,gpus,duration,retries"), "whole number", 3, "retries", "1.5"),
    Case(
        "accelerators",
        rota("0,1,5,A100 V100", "submit_time,gpus,duration,accelerators"),
        "'A100 V100'",
        3,
        "accelerators",
        "A100 V100",
    ),
    Case(
        "accelerators, none",
        rota("0,1,5,A100|", "submit_time,gpus,duration,accelerators"),
        "'' is no",
        3,
        "accelerators",
        "A100|",
    ),
    Case("duplicate job", "job_id,submit_time,gpus,duration\na,0,1,5\nb,0,1,5\n a ,0,1,5\n", "on line 2", 4, "job_id", "a"),
    # Rows of the other formats.
    Case("tiresias: duplicate job", tiresias("0,1,0,5"), "already used on line 2", 3, "job_id", "0"),
    Case("tiresias: no job id", tiresias(",1,0,5"), "is empty", 3, "job_id", ""),
    Case("tiresias: no GPUs", tiresias("1,0,0,5"), "at least 1", 3, "num_gpu", "0"),
    Case("tiresias: negative duration", tiresias("1,1,0,-5"), "negative", 3, "duration", "-5"),
    Case("philly: bad timestamp", philly("yesterday,5,1,5,a"), "YYYY-MM-DD", 3, "timestamp", "yesterday"),
    Case("philly: empty timestamp", philly(",5,1,5,a"), "YYYY-MM-DD", 3, "timestamp", ""),
    Case("philly: no such day", philly("2017-02-30 00:00:00,5,1,5,a"), "is no date", 3, "timestamp", "2017-02-30 00:00:00"),
    Case("philly: a zone", philly("2017-10-09 07+05:30,5,1,5,a"), "YYYY-MM-DD", 3, "timestamp", "2017-10-09 07+05:30"),
    Case("philly: a week date", philly("2017-W40-1 07:00:00,5,1,5,a"), "YYYY-MM-DD", 3, "timestamp", "2017-W40-1 07:00:00"),
    Case("philly: negative duration", philly("2017-10-09 07:01:55,-1,1,5,a"), "negative", 3, "duration", "-1"),
    Case("philly: no GPUs", philly("2017-10-09 07:01:55,1,0,5,a"), "at least 1", 3, "num_gpus", "0"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_malformed(tmp_path: Path, case: Case) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(case.text if isinstance(case.text, bytes) else case.text.encode())
    with pytest.raises(TraceError) as caught:
        read_trace(path, format=case.format)
    error = caught.value
    assert case.problem in error.message
    assert (error.where, error.line, error.field) == (str(path), case.line, case.field)
    assert error.message.startswith(str(path) if case.line is None else f"{path}:{case.line}")
    if case.value is not None:
        assert error.value == case.value
        assert f"{case.field}: {case.value!r}" in error.message
    assert error.hint
    assert len(error.message) < len(str(path)) + 400
    assert error.__suppress_context__ or error.__context__ is None, "no second traceback behind the first"


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file") as caught:
        read_trace(tmp_path / "nowhere.csv")
    assert caught.value.where == str(tmp_path / "nowhere.csv")
    assert caught.value.hint


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="is a folder") as caught:
        read_trace(tmp_path)
    assert caught.value.where == str(tmp_path)
    assert caught.value.hint


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000, "bad.csv/inside"])
def test_a_path_that_cannot_be(tmp_path: Path, name: str) -> None:
    (tmp_path / "bad.csv").touch()
    with pytest.raises(TraceError, match=r"cannot be read|no such file") as caught:
        read_trace(tmp_path / name)
    assert caught.value.hint


fuzzed = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_anyhow(path: Path, data: bytes, format: str) -> None:
    path.write_bytes(data)
    try:
        trace = read_trace(path, format=format)
    except InputError as error:
        assert error.hint
    else:
        assert len(trace) > 0


@fuzzed
@given(st.text() | st.text(alphabet='0123456789,."-|e\r\n\0_ AaVv\ufeff'), st.sampled_from(["auto", *FORMATS]))
def test_any_text_is_a_trace_or_an_input_error(tmp_path: Path, text: str, format: str) -> None:
    read_anyhow(tmp_path / "fuzz.csv", text.encode("utf-8", "surrogatepass"), format)


@fuzzed
@given(st.binary(), st.sampled_from(["auto", *FORMATS]))
def test_any_bytes_are_a_trace_or_an_input_error(tmp_path: Path, data: bytes, format: str) -> None:
    read_anyhow(tmp_path / "fuzz.csv", data, format)


FILES = [
    "submit_time,gpus,steps,profile,job_id,name,accelerators,weight,tenant,user,retries\n"
    "0,1,5,p,1,n,V100|A100,2,t,u,0\n"
    "7.5,2,5,,2,,,,,,1\n",
    "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,a\n2017-10-09 07:01:56,6,2,12,b\n",
    "job_id,num_gpu,submit_time,duration,model_name\n0,1,0,5,vgg\n1,2,3,4,\n",
]
CELLS = st.text(max_size=12) | st.sampled_from(
    ["", "nan", "-inf", "1e400", "-0", "1e15", "0x10", "1_0", "|", '"', '""', "²", "0000-01-01 00:00:00", "9999-12-31 23:59:60"]
)


@fuzzed
@given(st.sampled_from(FILES), st.data())
def test_any_corrupted_cell_is_a_trace_or_an_input_error(tmp_path: Path, text: str, data: st.DataObject) -> None:
    rows = [line.split(",") for line in text.splitlines()]
    for _ in range(data.draw(st.integers(1, 3))):
        row = data.draw(st.sampled_from(rows))
        row[data.draw(st.integers(0, len(row) - 1))] = data.draw(CELLS)
    corrupted = "\n".join(",".join(row) for row in rows)
    read_anyhow(tmp_path / "fuzz.csv", corrupted.encode("utf-8", "surrogatepass"), data.draw(st.sampled_from(["auto", *FORMATS])))
