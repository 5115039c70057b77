"""Reading well-formed traces: Rota's own format, detection, filters, order. The formats of others are in test_formats.py."""

from pathlib import Path

import pytest

from rota.errors import TraceError, UnknownNameError
from rota.model.job import Arrival, JobSpec
from rota.traces.format import Format
from rota.traces.read_trace import FORMATS, read_trace

PHILLY = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 06:13:03,2951.0,4,11804.0,6214e9
2017-10-09 06:13:03,0,2,0,11cb48

"""


def write(folder: Path, text: str) -> Path:
    path = folder / "trace.csv"
    path.write_bytes(text.encode())
    return path


def test_rota_with_everything(tmp_path: Path) -> None:
    text = (
        "job_id,name,submit_time,gpus,steps,profile,accelerators,weight,tenant,user,retries\n"
        'a,"bert, ""large""",60.5,4,1e5,bert,a100 | V100|a100,0.5,nlp,ana,3\n'
        "b,,0,1,10,,,,,,\n"
    )
    assert read_trace(write(tmp_path, text)).arrivals == (
        Arrival(0.0, JobSpec(name="b", gpus=1, steps=10.0)),
        Arrival(
            60.5,
            JobSpec(
                name='bert, "large"',
                gpus=4,
                steps=1e5,
                profile="bert",
                accelerators=("A100", "V100"),
                weight=0.5,
                tenant="nlp",
                user="ana",
                retries=3,
            ),
        ),
    )


def test_rota_with_as_little_as_possible(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, "submit_time,gpus,duration\n10,1,60\n"))
    assert trace.format == "rota"
    assert trace.arrivals == (Arrival(10.0, JobSpec(name="line-2", gpus=1, steps=60.0)),)


@pytest.mark.parametrize(
    "text",
    [
        "submit_time,gpus,duration\r\n0,1,5\r\n",
        "submit_time,gpus,duration\r0,1,5",
        "\ufeffsubmit_time,gpus,duration\n0,1,5\n",
        "\n  \nsubmit_time , gpus,\tduration\n\n 0 , 1.0 , 5 \n\n\n",
        '"submit_time","gpus","duration"\n"0","1","5"\n',
    ],
    ids=["crlf", "cr", "bom", "blanks", "quotes"],
)
def test_ways_to_write_the_same(tmp_path: Path, text: str) -> None:
    (arrival,) = read_trace(write(tmp_path, text)).arrivals
    assert (arrival.submitted_s, arrival.spec.gpus, arrival.spec.steps) == (0.0, 1, 5.0)


@pytest.mark.parametrize("format", ["auto", "philly"])
def test_a_format_may_be_named(tmp_path: Path, format: str) -> None:
    assert len(read_trace(str(write(tmp_path, PHILLY)), format=format)) == 3


def test_an_unknown_format_gets_the_closest(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="Closest: philly") as caught:
        read_trace(write(tmp_path, PHILLY), format="phily")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ([("cluster", "11cb48")], [4, 2]),
        ([(" cluster ", " 11cb48 ")], [4, 2]),
        ([("cluster", "11cb48"), ("num_gpus", "2")], [4]),
        ([("gpu_time", "66.0")], [2]),
        ([], [3, 4, 2]),
    ],
)
def test_where_takes_exact_values_of_any_column(tmp_path: Path, where: list[tuple[str, str]], kept: list[int]) -> None:
    assert list(read_trace(write(tmp_path, PHILLY), where=where).lines) == kept


def test_where_with_an_unknown_column(tmp_path: Path) -> None:
    path = write(tmp_path, PHILLY)
    with pytest.raises(TraceError, match=r"Closest: cluster\. All: timestamp, duration") as caught:
        read_trace(path, where=[("Clusters", "x")])
    error = caught.value
    assert (error.where, error.line, error.field, error.value) == (str(path), 1, "where", "Clusters")
    assert error.hint


def test_where_that_matches_nothing_tells_what_exists(tmp_path: Path) -> None:
    path = write(tmp_path, PHILLY)
    with pytest.raises(TraceError, match=r"Closest: 11cb48\. There are '11cb48', '6214e9'\.") as caught:
        read_trace(path, where=[("num_gpus", "1"), ("cluster", "11cb4")])
    error = caught.value
    assert (error.where, error.field, error.value) == (str(path), "cluster", "11cb4")
    assert error.hint


def test_where_that_matches_nothing_tells_only_some_of_many(tmp_path: Path) -> None:
    rows = "".join(f"{i},1,5\n" for i in range(20))
    with pytest.raises(TraceError, match="'0', '1', '2', '3', '4' and 15 more"):
        read_trace(write(tmp_path, "submit_time,gpus,duration\n" + rows), where=[("submit_time", "none")])


def test_where_that_matches_nothing_together(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="all of these at once") as caught:
        read_trace(write(tmp_path, PHILLY), where=[("cluster", "6214e9"), ("num_gpus", "1")])
    assert caught.value.value == "cluster=6214e9, num_gpus=1"
    assert caught.value.hint


def test_rows_that_were_not_asked_for_may_be_malformed(tmp_path: Path) -> None:
    text = "submit_time,gpus,duration,user\n0,1,5,ana\n0,none,5,leo\n"
    assert len(read_trace(write(tmp_path, text), where=[("user", "ana")])) == 1


def test_detection_says_what_the_nearest_format_needs(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"Nearest: rota, which needs submit_time, gpus\.") as caught:
        read_trace(write(tmp_path, "submit_time,gpu,duration\n0,1,5\n"))
    assert all(name in caught.value.message for name in FORMATS)
    assert "--format rota" in caught.value.hint


@pytest.mark.parametrize("known", [known for known in FORMATS.values() if known.required], ids=lambda known: known.name)
def test_detection_of_a_header_that_lacks_one_column(tmp_path: Path, known: Format) -> None:
    if known.name != "rota":
        with pytest.raises(TraceError, match=f"Nearest: {known.name}, which needs {', '.join(known.required)}"):
            read_trace(write(tmp_path, ",".join(known.required[:-1]) + "\n"))
    with pytest.raises(TraceError, match=f"the {known.name} format needs this column"):
        read_trace(write(tmp_path, ",".join(known.required[:-1]) + "\n"), format=known.name)


def test_a_header_that_fits_two_formats_must_be_named(tmp_path: Path) -> None:
    path = write(tmp_path, "job_id,num_gpu,gpus,submit_time,duration\n1,2,2,0,5\n")
    with pytest.raises(TraceError, match="fits more than one format: rota, tiresias") as caught:
        read_trace(path)
    assert "--format" in caught.value.hint
    assert len(read_trace(path, format="tiresias")) == 1


def test_a_wide_header_is_refused_quickly(tmp_path: Path) -> None:
    wide = ",".join(map(str, range(100_000)))
    with pytest.raises(TraceError, match="has no such column"):
        read_trace(write(tmp_path, f"submit_time,gpus,duration,{wide}\n0,1,5\n"))
