"""The published traces, as they come: what their papers and their READMEs say is in them, or else what a second, plainer reading
of the same file finds. Formats are always told by `auto`."""

import csv
import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from rota.errors import TraceError
from rota.traces.info import describe
from rota.traces.pollux import STEPS
from rota.traces.read_trace import read_trace
from rota.traces.trace import Trace
from tests.shared import SHARED

DATA = SHARED / "data"

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="needs the folder shared/data with the published traces, beside the repository"
)


def files(*patterns: str) -> pytest.MarkDecorator:
    """Every file that fits, by its path below the data folder."""
    found = [str(path.relative_to(DATA)) for pattern in patterns for path in sorted(DATA.glob(pattern))]
    return pytest.mark.parametrize("name", found)


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(newline="") as file:
        return list(csv.DictReader(file))


def gpu_seconds(trace: Trace) -> float:
    """GPUs times steps, whatever a step is."""
    return sum(arrival.spec.gpus * arrival.spec.steps for arrival in trace.arrivals)


def check(trace: Trace, submitted_s: Sequence[float], gpus: Sequence[int], steps: Sequence[float]) -> None:
    """The trace holds exactly these jobs, given in any order."""
    specs = [arrival.spec for arrival in trace.arrivals]
    ours = [(arrival.submitted_s, arrival.spec.gpus, arrival.spec.steps) for arrival in trace.arrivals]
    assert sorted(ours) == sorted(zip(submitted_s, gpus, steps, strict=True))
    assert [each[0] for each in ours] == sorted(submitted_s)
    assert gpu_seconds(trace) == pytest.approx(sum(g * n for g, n in zip(gpus, steps, strict=True)))
    info = describe(trace)
    assert info.span_seconds == max(submitted_s) - min(submitted_s)
    if not any(spec.profile for spec in specs):
        assert info.gpu_hours == pytest.approx(gpu_seconds(trace) / 3600)


def test_philly() -> None:
    trace = read_trace(DATA / "philly" / "philly_82k_jobs.csv")
    specs = [arrival.spec for arrival in trace.arrivals]
    assert trace.format == "philly"
    assert len(trace) == 82_247
    assert trace.skipped == ()
    assert sum(spec.gpus * spec.steps for spec in specs) / 3600.0 == pytest.approx(978_000, rel=1e-3)
    assert (min(spec.gpus for spec in specs), max(spec.gpus for spec in specs)) == (1, 128)
    assert len({spec.tenant for spec in specs}) == 15
    assert sum(spec.steps < 60 for spec in specs) == 7_654


def test_philly_spans_the_autumn_of_2017() -> None:
    trace = read_trace(DATA / "philly" / "philly_82k_jobs.csv")
    span = datetime(2017, 12, 22, 8, 2, 11) - datetime(2017, 9, 4, 10, 30, 41)
    assert trace.arrivals[0].submitted_s == 0.0
    assert trace.arrivals[-1].submitted_s == span.total_seconds()


def test_philly_of_one_virtual_cluster_starts_at_zero() -> None:
    whole = read_trace(DATA / "philly" / "philly_82k_jobs.csv")
    tenant, jobs = Counter(arrival.spec.tenant for arrival in whole.arrivals).most_common()[-1]
    part = read_trace(DATA / "philly" / "philly_82k_jobs.csv", where=[("cluster", tenant)])
    assert len(part) == jobs
    assert part.arrivals[0].submitted_s == 0.0
    ours = [arrival for arrival in whole.arrivals if arrival.spec.tenant == tenant]
    assert [arrival.spec for arrival in part.arrivals] == [arrival.spec for arrival in ours], "the same order"
    assert part.arrivals[-1].submitted_s == ours[-1].submitted_s - ours[0].submitted_s


def test_tiresias() -> None:
    trace = read_trace(DATA / "tiresias" / "60_job.csv")
    assert trace.format == "tiresias"
    assert len(trace) == 60
    first = trace.arrivals[0]
    assert (first.submitted_s, first.spec.name, first.spec.gpus, first.spec.steps) == (0.0, "vgg19-0", 1, 164.0)


@files("elasticflow/*.csv")
def test_elasticflow_has_the_columns_of_tiresias(name: str) -> None:
    trace, listed = read_trace(DATA / name), rows(name)
    assert trace.format == "tiresias"
    assert len(trace) == {"philly_103959.csv": 876, "elasticVpollux_e.csv": 195}[Path(name).name]
    check(
        trace,
        [float(row["submit_time"]) for row in listed],
        [int(row["num_gpu"]) for row in listed],
        [float(row["duration"]) for row in listed],
    )


GAVEL = ("gavel/msr_seed0/*.trace", "gavel/physical/*.trace", "shockwave/traces/*.trace")
PLACES = {7: (4, 6, 5), 10: (5, 6, 9), 12: (5, 6, 11)}
"""Cells in a line -> where steps, GPUs and the arrival stand."""


def lines(name: str) -> list[list[str]]:
    with (DATA / name).open(newline="") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@files(*GAVEL)
def test_gavel(name: str) -> None:
    trace, listed = read_trace(DATA / name), lines(name)
    steps, gpus, submitted_s = PLACES[len(listed[0])]
    assert (trace.format, trace.skipped) == ("gavel", ())
    check(
        trace,
        [float(cells[submitted_s]) for cells in listed],
        [int(cells[gpus]) for cells in listed],
        [float(cells[steps]) for cells in listed],
    )
    assert Counter(arrival.spec.profile for arrival in trace.arrivals) == Counter(cells[0] for cells in listed)
    assert {arrival.spec.weight for arrival in trace.arrivals} == {1.0}
    dynamic = sum(cells[7] != "static" for cells in listed) if len(listed[0]) == 12 else 0
    assert [note.split()[0] for note in trace.notes] == ([str(dynamic)] if dynamic else [])


@files(*GAVEL)
def test_gavel_profiles_are_the_job_types_of_its_table_of_rates(name: str) -> None:
    table = json.loads((DATA / "gavel" / "simulation_throughputs.json").read_text())["v100"]
    types = {key.split("'")[1] for key in table}
    assert {arrival.spec.profile for arrival in read_trace(DATA / name).arrivals} <= types


@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("gavel/physical/max_min_fairness.trace", 96),
        ("gavel/physical/minimize_makespan.trace", 100),
        ("shockwave/traces/120_*.trace", 120),
        ("shockwave/traces/220_*.trace", 220),
        ("shockwave/traces/460_*.trace", 460),
        ("shockwave/traces/900_*_100_*.trace", 900),
        ("shockwave/traces/900_*_1000_*.trace", 900),
    ],
)
def test_gavel_has_the_published_number_of_jobs(name: str, jobs: int) -> None:
    (path,) = DATA.glob(name)
    assert len(read_trace(path)) == jobs


def test_gavel_of_shockwave_states_the_run_time_again() -> None:
    """Its eleventh cell is what the steps take on the authors' GPUs: GPU-hours come out alike by both, as documented."""
    (path,) = (DATA / "shockwave" / "traces").glob("120_*.trace")
    table = json.loads((DATA / "shockwave" / "tacc_throughputs.json").read_text())["v100"]
    specs = [arrival.spec for arrival in read_trace(path).arrivals]
    by_rates = sum(spec.gpus * spec.steps / table[str((spec.profile, spec.gpus))]["null"] for spec in specs) / 3600
    stated = sum(int(cells[6]) * float(cells[10]) for cells in lines(str(path.relative_to(DATA)))) / 3600
    assert by_rates == pytest.approx(stated, rel=1e-3)


ITERATION_SECONDS = {
    "pal/bert": 0.179,
    "pal/dcgan": 0.0469266931,
    "pal/gpt2": 3.5714,
    "pal/pointnet": 0.28125,
    "pal/resnet50": 0.17540429367763434,
    "pal/vgg19": 0.300610341,
}
"""What an iteration takes in the artifact of PAL (SC'24)."""


@files("pal_variability/traces/*.csv")
def test_pal(name: str) -> None:
    trace, listed = read_trace(DATA / name), rows(name)
    assert (trace.format, len(trace), trace.skipped, trace.notes) == ("pal", 160, (), ())
    check(
        trace,
        [float(row["submit_time"]) for row in listed],
        [int(row["num_gpus"]) for row in listed],
        [float(row["duration"]) for row in listed],
    )
    specs = [arrival.spec for arrival in trace.arrivals]
    assert {spec.profile for spec in specs} <= ITERATION_SECONDS.keys()
    hours = sum(spec.gpus * spec.steps * ITERATION_SECONDS[spec.profile] for spec in specs) / 3600
    again = sum(
        int(row["num_gpus"]) * float(row["duration"]) * ITERATION_SECONDS["pal/" + row["model"].lower()] for row in listed
    )
    assert hours == pytest.approx(again / 3600)
    assert max(spec.gpus for spec in specs) <= 48
    published_h = 8 if "sia" in name else 5
    assert 0.9 * published_h < trace.arrivals[-1].submitted_s / 3600 <= published_h


@files("pal_variability/traces/workload-*.csv")
def test_pal_sizes(name: str) -> None:
    sizes = [arrival.spec.gpus for arrival in read_trace(DATA / name).arrivals]
    assert 0.35 <= sizes.count(1) / 160 <= 0.47
    assert 0.05 <= sum(2 <= size <= 4 for size in sizes) / 160 <= 0.09


def test_pollux_steps_are_those_of_its_curves() -> None:
    curves = {
        application: {
            int(path.stem.removeprefix("validation-")): int(rows(str(path.relative_to(DATA)))[-1]["iteration"])
            for path in (DATA / "pollux_profiles" / application).glob("validation-*.csv")
        }
        for application in STEPS
    }
    assert curves == STEPS
    assert {path.parent.name for path in DATA.glob("pollux_profiles/*/validation-*.csv")} == STEPS.keys()


@files("pollux_profiles/workloads*/*.csv")
def test_pollux(name: str) -> None:
    trace, listed = read_trace(DATA / name), rows(name)
    folder = Path(name).parent.name
    load = {"workloads-0.5": 0.5, "workloads-1.5": 1.5, "workloads-2.0": 2.0}.get(folder, 1.0)
    assert (trace.format, len(trace), trace.skipped) == ("pollux", 160 * load, ())
    assert trace.notes == (), "there is a curve for every batch size"
    curve = "pollux_profiles/{application}/validation-{batch_size}.csv"
    ends = {
        key: float(rows(curve.format(application=key[0], batch_size=key[1]))[-1]["iteration"])
        for key in {(row["application"], row["batch_size"]) for row in listed}
    }
    check(
        trace,
        [float(row["time"]) for row in listed],
        [int(row["num_replicas"]) for row in listed],
        [ends[row["application"], row["batch_size"]] for row in listed],
    )
    assert 7 < trace.arrivals[-1].submitted_s / 3600 <= 8
    assert {arrival.spec.profile for arrival in trace.arrivals} == {f"{a}/global{b}" for a, b in ends}


def part_of(row: dict[str, str]) -> float:
    return int(row["gpu_milli"]) / 1000 if row["num_gpu"] == "1" else int(row["num_gpu"])


@files(*(f"alibaba_v2023_openb/openb_pod_list_{variant}.csv" for variant in ("default", "gpushare40", "gpuspec33")))
def test_openb(name: str) -> None:
    trace, listed = read_trace(DATA / name), rows(name)
    assert trace.format == "openb"
    assert len(listed) == len(trace) + len(trace.skipped) == 8_152
    without = [row for row in listed if row["num_gpu"] == "0"]
    waited = [row for row in listed if row["num_gpu"] != "0" and not row["scheduled_time"]]
    ran = [row for row in listed if row["num_gpu"] != "0" and row["scheduled_time"]]
    seconds = [float(row["deletion_time"]) - float(row["scheduled_time"]) for row in ran]
    assert min(seconds) > 0
    assert describe(trace).skipped_why == {"requests no GPU": len(without), "was never scheduled": len(waited)}
    check(trace, [float(row["creation_time"]) for row in ran], [part_of(row) for row in ran], seconds)
    assert trace.notes == (), "only pods of one GPU ask for a part of it"
    assert sum(arrival.spec.gpus < 1 for arrival in trace.arrivals) > 1000
    types = {kind for arrival in trace.arrivals for kind in arrival.spec.accelerators}
    assert types == ({"V100M16", "V100M32", "P100", "T4", "A10", "G2", "G3"} if "gpuspec33" in name else set())
    by_name = {row["name"]: row["gpu_spec"] for row in ran}
    for arrival in trace.arrivals:
        assert set(arrival.spec.accelerators) == set(filter(None, by_name[arrival.spec.name].split("|")))


def test_openb_without_times_is_refused() -> None:
    path = DATA / "alibaba_v2023_openb" / "openb_pod_list_multigpu50.csv"
    for format in ("auto", "openb"):
        with pytest.raises(TraceError, match="has no times") as caught:
            read_trace(path, format=format)
        assert caught.value.line == 1 and caught.value.hint


def test_kalos() -> None:
    name = "acme_kalos_sample/converted_kalos_trace.csv"
    trace, listed = read_trace(DATA / name), rows(name)
    assert (trace.format, len(trace), trace.skipped, trace.notes) == ("kalos", 319, (), ())
    check(
        trace,
        [float(row["arrival_time"]) for row in listed],
        [int(row["gpu_workers"]) * int(float(row["gpu_per_worker"])) for row in listed],
        [int(row["num_iteration"]) / 2 for row in listed],
    )
    assert round(trace.arrivals[-1].submitted_s / 86_400) == 90
    assert max(arrival.spec.gpus for arrival in trace.arrivals) == 1_024
    (kalos,) = (row for row in rows("acme_kalos_sample/cluster_summary.csv") if row["id"] == "Kalos")
    longest_s = max(arrival.spec.steps for arrival in trace.arrivals)
    assert longest_s == float(kalos["max_run_time_gpu"]), "half a second per iteration is what the cluster's own log says"
