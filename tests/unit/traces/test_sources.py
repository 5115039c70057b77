"""The source of a trace, and the spelling of its header: compressed files, standard input, upper and lower case."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

import rota
from rota.errors import OptionError, TraceError
from rota.traces.read_trace import read_trace

JOBS = "submit_time,gpus,duration,user\n0,1,60,ana\n10,2,30,bo\n"


def test_a_compressed_trace_is_the_same_trace(tmp_path: Path) -> None:
    plain, packed = tmp_path / "jobs.csv", tmp_path / "jobs.csv.gz"
    plain.write_text(JOBS)
    packed.write_bytes(gzip.compress(JOBS.encode()))
    assert read_trace(packed).arrivals == read_trace(plain).arrivals
    assert rota.simulate(packed, cluster="4xV100").summary.finished == 2


@pytest.mark.parametrize("cut", [5, 30])
def test_a_damaged_file_is_told_of(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "jobs.csv.gz"
    path.write_bytes(gzip.compress(JOBS.encode())[:cut])
    with pytest.raises(TraceError, match="cannot be unpacked"):
        read_trace(path)


def run(*words: str, given: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "rota", *words], input=given, capture_output=True, timeout=120)


@pytest.mark.parametrize("given", [JOBS.encode(), gzip.compress(JOBS.encode())], ids=["plain", "compressed"])
@pytest.mark.slow
def test_a_trace_from_standard_input(given: bytes) -> None:
    done = run("sim", "--trace", "-", "--cluster", "4xV100", "-o", "csv", "--per-job", given=given)
    assert done.returncode == 0 and done.stdout.count(b"\n") == 3
    both = run("compare", "fifo", "srsf", "--trace", "-", "--cluster", "4xV100", "--seeds", "2", given=given)
    assert both.returncode == 0 and b"standard input: 2 jobs" in both.stdout


@pytest.mark.slow
def test_what_cannot_come_from_standard_input() -> None:
    done = run("sim", "--trace", "-", "--cluster", "4xV100", given=b"")
    assert done.returncode == 2 and b"standard input" in done.stderr and b"empty" in done.stderr
    done = run("sim", "--trace", "-", "--cluster", "4xV100", given=b"a,b\n1,2\n")
    assert done.returncode == 2 and b"standard input:1" in done.stderr
    with pytest.raises(OptionError, match="which the processes of a sweep cannot read"):
        rota.sweep(["fifo"], trace="-", out="never")


@pytest.mark.parametrize(
    ("text", "format"),
    [
        (JOBS.replace("submit_time,gpus,duration,user", "Submit_Time,GPUs,DURATION,User"), "rota"),
        ("JOB_ID,Num_GPU,SUBMIT_TIME,Duration,model_name\n1,2,0,60,vgg\n", "tiresias"),
        ("Timestamp,DURATION,Num_GPUs\n2020-01-01 00:00:00,60,1\n", "philly"),
    ],
)
def test_headers_in_any_case(tmp_path: Path, text: str, format: str) -> None:
    path, lower = tmp_path / "jobs.csv", tmp_path / "lower.csv"
    path.write_text(text)
    header, _, rows = text.partition("\n")
    lower.write_text(f"{header.lower()}\n{rows}")
    found = read_trace(path)
    assert found.format == format and found.arrivals == read_trace(lower).arrivals
    assert read_trace(path, format=format).arrivals == found.arrivals


def test_filters_find_columns_in_any_case(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(JOBS.replace("user", "User"))
    for column in ("user", "User", "USER"):
        assert len(read_trace(path, where=[(column, "ana")])) == 1


def test_columns_that_differ_in_case_only_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("timestamp,duration,num_gpus,X,x\n2020-01-01 00:00:00,60,1,a,b\n")
    assert len(read_trace(path, where=[("X", "a")])) == 1


def test_a_table_of_rates_may_spell_its_header_in_any_case(tmp_path: Path) -> None:
    table = tmp_path / "rates.csv"
    table.write_text("Profile,Accelerator,GPUs,Steps_per_Second\nmine,V100,1,2\n")
    jobs = tmp_path / "jobs.csv"
    jobs.write_text("submit_time,gpus,steps,profile\n0,1,100,mine\n")
    found = rota.simulate(jobs, cluster="1xV100", profile=table, launch_seconds=0)
    assert found.summary.mean_jct_seconds == pytest.approx(50.0)
