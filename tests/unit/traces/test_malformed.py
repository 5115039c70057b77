"""Every malformed trace gives one TraceError that names file, line, field and value, and the next step."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import InputError, TraceError
from rota.traces.read_trace import FORMATS, read_trace
from tests.examples import examples


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


def gavel(*cells: str, good: str = "A3C|run|dir|-n|1|50|1|1|-1|0") -> str:
    """Cells of the second line in place of good ones, `number=cell`; the first line is good."""
    row = good.split("|")
    for cell in cells:
        place, _, value = cell.partition("=")
        row[int(place)] = value
    return "\n" + "\t".join(good.split("|")) + "\n" + "\t".join(row) + "\n"


def helios(row: str) -> str:
    head = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
    return f"{head}\n1,u,v,1,4,1,FAILED,2020-04-01 00:00:00,2020-04-01 00:00:05,2020-04-01 00:01:05,60,5\n{row}\n"


def pal(row: str) -> str:
    return f"job_id,num_gpus,submit_time,duration,model\n0,1,98,1481.0,vgg19\n{row}\n"


def pollux(row: str) -> str:
    return f"name,time,application,num_replicas,batch_size\nncf-0,29,ncf,1,32768\n{row}\n"


PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"


def openb(row: str) -> str:
    return f"{PODS}\np0,1000,1024,1,1000,,LS,Running,0,50,10\n{row}\n"


def kalos(row: str) -> str:
    return f"job_id,arrival_time,num_iteration,gpu_workers,ps,gpu_per_worker\n0,0.0,208,8,0,8.0\n{row}\n"


LONG = "9" * 10_001
SHOWN = "9" * 60 + "…"

SIZES = "submit_time,gpus,duration,gpu_counts,batch_size,batch_sizes,can_resize"
CASES = [
    # Sizes that a job accepts.
    Case("counts that are no numbers", rota("0,1,5,1|x,,,", SIZES), "whole numbers from 1", 3, "gpu_counts", "1|x"),
    Case("a count of none", rota("0,1,5,0|1,,,", SIZES), "whole numbers from 1", 3, "gpu_counts", "0|1"),
    Case("counts beside a part", rota("0,0.5,5,1|2,,,", SIZES), "fraction of a GPU", 3, "gpu_counts", "1|2"),
    Case("batch sizes without one asked for", rota("0,1,5,,,32|64,", SIZES), "needs batch_size", 3, "batch_sizes", "32|64"),
    Case("a batch of none", rota("0,1,5,,0,,", SIZES), "", 3, "batch_size", "0"),
    Case("resizes perhaps", rota("0,1,5,,,,maybe", SIZES), "true or false", 3, "can_resize", "maybe"),
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
    Case("no format fits", "a,b\n1,2\n", "Nearest: rota, which needs submit_time, gpus. All: rota, gavel", 1, "header", "a,b"),
    Case("tabs for commas", "submit_time\tgpus\tduration\n0\t1\t5\n", "fits no", 1, "header", "submit_time\tgpus\tduration"),
    Case("pal and tiresias", "job_id,num_gpu,num_gpus,submit_time,duration,model\n", "tiresias, pal", 1, "header"),
    Case("other separator", "submit_time;gpus;duration\n0;1;5\n", "fits no format", 1, "header", "submit_time;gpus;duration"),
    Case("two formats fit", "job_id,num_gpu,gpus,submit_time,duration\n", "rota, tiresias", 1, "header"),
    Case("missing column", "submit_time,gpu,duration\n0,1,5\n", "Closest: gpu.", 1, "gpus", format="rota"),
    Case("missing column of philly", "timestamp,duration\n", "philly format needs", 1, "num_gpus", format="philly"),
    Case("missing column of tiresias", "job_id,num_gpu,duration\n", "tiresias format needs", 1, "submit_time", format="tiresias"),
    Case("unknown column", rota("", "submit_time,gpus,duration,Weigth"), "Closest: weight.", 1, "column", "Weigth"),
    Case("column without a name", rota("", "submit_time,gpus,duration,"), "no such column", 1, "column", ""),
    Case("duplicate column", rota("", "submit_time,gpus,duration, gpus"), "twice", 1, "column", "gpus"),
    Case(
        "duration and steps",
        rota("", "submit_time,gpus,duration,steps"),
        "cannot be combined with duration",
        1,
        "column",
        "steps",
    ),
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
    Case("negative submission", rota("-1,1,5"), "must be at least", 3, "submit_time", "-1"),
    Case("negative duration", rota("0,1,-0.5"), "must be at least", 3, "duration", "-0.5"),
    Case("nan", rota("0,1,nan"), "not a finite number", 3, "duration", "nan"),
    Case("inf", rota("0,1,inf"), "not a finite number", 3, "duration", "inf"),
    Case("overflow", rota("0,1,1e999"), "not a finite number", 3, "duration", "1e999"),
    Case("beyond all sense", rota("0,1,1e16"), "more than", 3, "duration", "1e16"),
    Case("negative steps", rota("0,1,-5", "submit_time,gpus,steps"), "must be at least", 3, "steps", "-5"),
    Case("no GPUs", rota("0,0,5"), "at least 1", 3, "gpus", "0"),
    Case("negative GPUs", rota("0,-2,5"), "must be at least", 3, "gpus", "-2"),
    Case("a GPU and a half", rota("0,1.5,5"), "not a whole number", 3, "gpus", "1.5"),
    Case("less than a thousandth", rota("0,0.0001,5"), "thousandths of one GPU", 3, "gpus", "0.0001"),
    Case("too many GPUs", rota("0,1000001,5"), "more than 1,000,000", 3, "gpus", "1000001"),
    Case("weight 0", rota("0,1,5,0", "submit_time,gpus,duration,weight"), "more than 0", 3, "weight", "0"),
    Case("negative weight", rota("0,1,5,-1", "submit_time,gpus,duration,weight"), "must be at least", 3, "weight", "-1"),
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
    Case("tiresias: negative duration", tiresias("1,1,0,-5"), "must be at least", 3, "duration", "-5"),
    Case("philly: bad timestamp", philly("yesterday,5,1,5,a"), "YYYY-MM-DD", 3, "timestamp", "yesterday"),
    Case("philly: empty timestamp", philly(",5,1,5,a"), "YYYY-MM-DD", 3, "timestamp", ""),
    Case("philly: no such day", philly("2017-02-30 00:00:00,5,1,5,a"), "is not a date", 3, "timestamp", "2017-02-30 00:00:00"),
    Case("philly: a zone", philly("2017-10-09 07+05:30,5,1,5,a"), "YYYY-MM-DD", 3, "timestamp", "2017-10-09 07+05:30"),
    Case("philly: a week date", philly("2017-W40-1 07:00:00,5,1,5,a"), "YYYY-MM-DD", 3, "timestamp", "2017-W40-1 07:00:00"),
    Case("philly: negative duration", philly("2017-10-09 07:01:55,-1,1,5,a"), "must be at least", 3, "duration", "-1"),
    Case("philly: no GPUs", philly("2017-10-09 07:01:55,1,0,5,a"), "at least 1", 3, "num_gpus", "0"),
    Case("gavel: too few cells", gavel() + "A3C\t1\n", "first row, on line 2, has 10 cells", 4, "cells", 2),
    Case("gavel: a variant in another", gavel() + "A3C|run|-n|1|50|0|1\n".replace("|", "\t"), "has 10 cells", 4, "cells", 7),
    Case("gavel: commas", "A3C,run,-n,1,50,0,1\n", "7, 10 or 12 cells", 1, "cells", 1, format="gavel"),
    Case("gavel: a header", gavel("5=total_steps").split("\n")[2], "Nearest: gavel", 1, "header"),
    Case("gavel: a header, told", gavel("5=steps").split("\n")[2], "finite number", 1, "total_steps", "steps", format="gavel"),
    Case("gavel: no job type", gavel("0= "), "is empty", 3, "job_type", ""),
    Case("gavel: steps", gavel("5=many"), "not a finite number", 3, "total_steps", "many"),
    Case("gavel: negative steps", gavel("5=-50"), "must be at least", 3, "total_steps", "-50"),
    Case("gavel: no GPUs", gavel("6=0"), "at least 1", 3, "scale_factor", "0"),
    Case("gavel: half a GPU", gavel("6=0.5"), "not a whole number", 3, "scale_factor", "0.5"),
    Case("gavel: weight 0", gavel("7=0"), "more than 0", 3, "priority_weight", "0"),
    Case("gavel: negative weight", gavel("7=-1"), "must be at least", 3, "priority_weight", "-1"),
    Case("gavel: arrival", gavel("9=noon"), "not a finite number", 3, "arrival_time", "noon"),
    Case("gavel: older, no arrival", gavel("5=", good="A3C|run|-n|1|50|0|1"), "is empty", 3, "arrival_time", ""),
    Case("gavel: Shockwave, GPUs", gavel("6=gns", good="A3C|r|d|-n|1|5|1|gns|1|-1|9|0"), "finite", 3, "scale_factor", "gns"),
    Case("gavel: long command", gavel(f"1={LONG}"), "10,001 characters", 3, "command", SHOWN),
    Case("helios: GPUs", helios("2,u,v,two,4,1,FAILED,2020-04-01 00:00:00,,,60,5"), "finite number", 3, "gpu_num", "two"),
    Case(
        "helios: negative GPUs", helios("2,u,v,-1,4,1,FAILED,2020-04-01 00:00:00,,,60,5"), "must be at least", 3, "gpu_num", "-1"
    ),
    Case("helios: no job id", helios(",u,v,1,4,1,FAILED,2020-04-01 00:00:00,,,60,5"), "is empty", 3, "job_id", ""),
    Case("helios: no duration", helios("2,u,v,1,4,1,FAILED,2020-04-01 00:00:00,,,,5"), "is empty", 3, "duration", ""),
    Case("helios: epoch", helios("2,u,v,1,4,1,FAILED,1585699200,,,60,5"), "YYYY-MM-DD", 3, "submit_time", "1585699200"),
    Case(
        "helios: no such hour",
        helios("2,u,v,1,4,1,FAILED,2020-04-01 24:00:00,,,60,5"),
        "is not a date",
        3,
        "submit_time",
        "2020-04-01 24:00:00",
    ),
    Case("pal: duplicate job", pal("0,1,99,5,BERT"), "already used on line 2", 3, "job_id", "0"),
    Case("pal: no model", pal("1,1,99,5,"), "is empty", 3, "model", ""),
    Case("pal: no job id", pal(",1,99,5,BERT"), "is empty", 3, "job_id", ""),
    Case("pal: no GPUs", pal("1,0,99,5,BERT"), "at least 1", 3, "num_gpus", "0"),
    Case("pal: iterations", pal("1,1,99,1 h,BERT"), "not a finite number", 3, "duration", "1 h"),
    Case("pollux: duplicate name", pollux("ncf-0,30,ncf,1,256"), "already used on line 2", 3, "name", "ncf-0"),
    Case("pollux: no name", pollux(",30,ncf,1,256"), "is empty", 3, "name", ""),
    Case("pollux: application", pollux("a,30,cifar,1,256"), "Closest: cifar10.", 3, "application", "cifar"),
    Case("pollux: batch size 0", pollux("a,30,ncf,1,0"), "at least 1", 3, "batch_size", "0"),
    Case("pollux: half an example", pollux("a,30,ncf,1,0.5"), "not a whole number", 3, "batch_size", "0.5"),
    Case("pollux: no GPUs", pollux("a,30,ncf,0,256"), "at least 1", 3, "num_replicas", "0"),
    Case("pollux: time", pollux("a,-30,ncf,1,256"), "must be at least", 3, "time", "-30"),
    Case("openb: no times", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,1000\n", "no times", 1, "creation_time"),
    Case("openb: no time of creation", openb("p1,1,1,1,1000,,LS,Running,,50,10"), "is empty", 3, "creation_time", ""),
    Case("openb: deletion", openb("p1,1,1,1,1000,,LS,Running,0,never,10"), "finite number", 3, "deletion_time", "never"),
    Case("openb: scheduled", openb("p1,1,1,1,1000,,LS,Running,0,50,-10"), "must be at least", 3, "scheduled_time", "-10"),
    Case("openb: half a GPU", openb("p1,1,1,0.5,500,,LS,Running,0,50,10"), "not a whole number", 3, "num_gpu", "0.5"),
    Case("openb: none of a GPU", openb("p1,1,1,1,0,,LS,Running,0,50,10"), "at least 1", 3, "gpu_milli", "0"),
    Case("openb: models", openb("p1,1,1,1,1000,T4 P100,LS,Running,0,50,10"), "'T4 P100' is no", 3, "gpu_spec", "T4 P100"),
    Case("openb: duplicate pod", openb("p0,1,1,0,0,,LS,Running,0,50,10"), "already used on line 2", 3, "name", "p0"),
    Case("openb: no name", openb(",1,1,1,1000,,LS,Running,0,50,10"), "is empty", 3, "name", ""),
    Case("openb: only CPUs", f"{PODS}\np0,1,1,0,0,,LS,Running,0,50,10\n", "every row is left out (requests no GPU: 1)"),
    Case("kalos: duplicate job", kalos("0,5,10,1,0,1"), "already used on line 2", 3, "job_id", "0"),
    Case("kalos: no job id", kalos(",5,10,1,0,1"), "is empty", 3, "job_id", ""),
    Case("kalos: part of a GPU", kalos("1,5,10,1,0,0.5"), "not a whole number", 3, "gpu_per_worker", "0.5"),
    Case("kalos: too many GPUs", kalos("1,5,10,100000,0,100"), "makes 10,000,000 GPUs", 3, "gpu_workers", "100000"),
    Case("kalos: iterations", kalos("1,5,,1,0,1"), "is empty", 3, "num_iteration", ""),
    Case("kalos: arrival", kalos("1,inf,10,1,0,1"), "not a finite number", 3, "arrival_time", "inf"),
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
    assert "\n" not in error.message + error.hint
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


fuzzed = examples(300, uses_fixtures=True)


def read_anyhow(path: Path, data: bytes, format: str) -> None:
    path.write_bytes(data)
    try:
        trace = read_trace(path, format=format)
    except InputError as error:
        assert error.hint
    else:
        assert len(trace) > 0


@fuzzed
@given(st.text() | st.text(alphabet='0123456789,."-|e\r\n\t\0_ AaVv\ufeff'), st.sampled_from(["auto", *FORMATS]))
def test_any_text_is_a_trace_or_an_input_error(tmp_path: Path, text: str, format: str) -> None:
    read_anyhow(tmp_path / "fuzz.csv", text.encode("utf-8", "surrogatepass"), format)


@fuzzed
@given(st.binary(), st.sampled_from(["auto", *FORMATS]))
@pytest.mark.slow
def test_any_bytes_are_a_trace_or_an_input_error(tmp_path: Path, data: bytes, format: str) -> None:
    read_anyhow(tmp_path / "fuzz.csv", data, format)


FILES = [
    "submit_time,gpus,steps,profile,job_id,name,accelerators,weight,tenant,user,retries\n"
    "0,1,5,p,1,n,V100|A100,2,t,u,0\n"
    "7.5,2,5,,2,,,,,,1\n",
    "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,a\n2017-10-09 07:01:56,6,2,12,b\n",
    "job_id,num_gpu,submit_time,duration,model_name\n0,1,0,5,vgg\n1,2,3,4,\n",
    gavel(),
    gavel(good="A3C|run|-n|1|50|0|1"),
    gavel(good="A3C|r|d|-n|1|5|1|gns|1|-1|9|0"),
    helios("2,u,v,0,4,1,FAILED,2020-04-01 00:00:00,,,60,5"),
    pal("1,1,99,5,BERT"),
    pollux("a,30,bert,2,100"),
    openb("p1,1,1,1,500,T4|P100,LS,Pending,0,50,"),
    kalos("1,5,10,1,0,1"),
]
CELLS = st.text(max_size=12) | st.sampled_from(
    [
        "",
        "nan",
        "-inf",
        "1e400",
        "-0",
        "1e15",
        "0x10",
        "1_0",
        "|",
        '"',
        '""',
        "²",
        "0000-01-01 00:00:00",
        "9999-12-31 23:59:60",
        "\t",
    ]
)


@fuzzed
@given(st.sampled_from(FILES), st.data())
@pytest.mark.slow
def test_any_corrupted_cell_is_a_trace_or_an_input_error(tmp_path: Path, text: str, data: st.DataObject) -> None:
    separator = "\t" if "\t" in text else ","
    rows = [line.split(separator) for line in text.splitlines()]
    for _ in range(data.draw(st.integers(1, 3))):
        row = data.draw(st.sampled_from(rows))
        row[data.draw(st.integers(0, len(row) - 1))] = data.draw(CELLS)
    corrupted = "\n".join(separator.join(row) for row in rows)
    read_anyhow(tmp_path / "fuzz.csv", corrupted.encode("utf-8", "surrogatepass"), data.draw(st.sampled_from(["auto", *FORMATS])))
