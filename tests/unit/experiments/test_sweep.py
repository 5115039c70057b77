"""A sweep: the grid, the store, and a run that is killed and continued."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rota
from rota.errors import InputError, OptionError
from rota.experiments.grid import Grid
from rota.experiments.runner import run as sweep
from rota.experiments.store import CellStore, write_atomic

JOBS = "synthetic:jobs=40,gpus=8,largest=4,longest_seconds=20000"
CLUSTER = "4xV100 + 4xK80"


def grid(**changes: object) -> Grid:
    values: dict[str, object] = {
        "policies": ("fifo", "srsf"),
        "traces": (JOBS,),
        "clusters": (CLUSTER,),
        "vary": {"trace.load": (0.5, 1)},
        "seeds": 2,
    }
    return Grid(**{**values, **changes})  # type: ignore[arg-type]


def test_the_grid_is_every_combination_once() -> None:
    made = grid(placers=("packed", "spread"), vary={"trace.load": (0.5, 1), "round_seconds": (60, 360)})
    cells = made.cells()
    assert len(made) == len(cells) == 2 * 2 * 2 * 2 * 2
    assert len({cell.key for cell in cells}) == len(cells)
    first = cells[0]
    assert first.axes == {
        "policy": "fifo",
        "trace": JOBS,
        "cluster": CLUSTER,
        "placer": "packed",
        "trace.load": 0.5,
        "round_seconds": 60,
    }
    assert "load=0.5" in first.study.trace and first.study.round_seconds == 60
    assert "seed=1" in cells[1].study.trace and cells[1].study.seed == 1


def test_a_policy_with_its_own_placer_is_one_cell() -> None:
    cells = grid(policies=("fifo+random",), placers=("packed", "spread"), vary={}, seeds=1).cells()
    assert [cell.study.placer for cell in cells] == [None]


def test_keys_know_what_is_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit_time,gpus,duration\n0,1,60\n")
    made = grid(traces=(str(path),), vary={}, seeds=1)
    before = [cell.key for cell in made.cells()]
    assert before == [cell.key for cell in made.cells()]
    path.write_text("submit_time,gpus,duration\n0,1,61\n")
    assert not set(before) & {cell.key for cell in made.cells()}


@pytest.mark.parametrize(
    "changes,words",
    [
        ({"policies": ()}, "at least one"),
        ({"seeds": 0}, "from 1 to 10,000"),
        ({"vary": {"colour": (1,)}}, "No setting 'colour'"),
        ({"vary": {"round_seconds": tuple(range(1, 60_000))}}, "more than 100,000 cells"),
    ],
)
def test_grids_that_make_no_sense(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        grid(**changes)


def test_what_cannot_work_is_said_before_anything_runs(tmp_path: Path) -> None:
    for changes in ({"policies": ("fifo", "no-such")}, {"clusters": ("many",)}, {"placers": ("nowhere",)}):
        with pytest.raises(InputError):
            sweep(grid(**changes), tmp_path / "out")
        assert not (tmp_path / "out" / "cells").exists()


def test_every_generated_trace_can_be_varied() -> None:
    made = grid(policies=("fifo",), traces=("gavel:jobs=5,multi=true",), vary={"trace.load": (0.5,)}, seeds=2)
    assert [cell.study.trace for cell in made.cells()] == [
        "gavel:jobs=5,multi=true,load=0.5",
        "gavel:jobs=5,multi=true,load=0.5,seed=1",
    ]


def test_settings_of_a_file_cannot_be_varied(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit_time,gpus,duration\n0,1,60\n")
    with pytest.raises(OptionError, match="not a generated trace"):
        grid(traces=(str(path),)).cells()


@pytest.mark.slow
def test_results_do_not_depend_on_how_many_work(tmp_path: Path) -> None:
    one = sweep(grid(), tmp_path / "one", workers=1)
    sweep(grid(), tmp_path / "two", workers=2)
    assert len(one.rows) == 8 and one.reused == 0 and not one.failed
    for name in ("results.csv", "results.json", "grid.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    again = sweep(grid(), tmp_path / "one")
    assert again.reused == 8 and again.rows == one.rows
    assert [point.seeds for point in one.points()] == [2, 2, 2, 2]
    assert "TRACE.LOAD" in str(one) and "±" in str(one)


@pytest.mark.slow
def test_a_cell_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    huge = "synthetic:jobs=10,gpus=64,largest=16,seed=2"
    found = sweep(grid(traces=(JOBS, huge), vary={}, seeds=1), tmp_path)
    assert len(found.rows) == 2
    assert len(found.failed) == 2 and "can never run" in found.failed[0].error
    problem = found.problem()
    assert problem is not None and "2 cells failed" in problem.message and problem.hint


@pytest.mark.slow
def test_a_file_that_was_cut_short_counts_as_not_there(tmp_path: Path) -> None:
    cells = grid().cells()
    whole = sweep(grid(), tmp_path / "a")
    path = tmp_path / "a" / "cells" / f"{cells[3].key}.json"
    path.write_bytes(path.read_bytes()[:50])
    again = sweep(grid(), tmp_path / "a")
    assert again.reused == 7 and again.rows == whole.rows


def test_one_sweep_at_a_time_in_a_folder(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    with store.locked(), pytest.raises(OptionError, match="another sweep"):
        sweep(grid(), tmp_path)


def test_a_write_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_atomic(path, "one")
    write_atomic(path, "two")
    assert path.read_text() == "two" and [each.name for each in tmp_path.iterdir()] == ["x.json"]


COMMAND = [
    "sweep",
    "fifo",
    "srsf",
    "tiresias",
    "--trace",
    "synthetic:jobs=60,gpus=24",
    "--vary",
    "trace.load=0.6/0.9",
    "--seeds",
    "4",
]


def start(folder: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "rota", *COMMAND, "--out", str(folder), "--workers", "2", "-o", "json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


@pytest.mark.slow
def test_killed_and_started_again_it_ends_the_same(tmp_path: Path) -> None:
    """Killed with -9 three times, once with its workers and twice without them."""
    straight = start(tmp_path / "straight")
    out, err = straight.communicate(timeout=300)
    assert straight.returncode == 0, err.decode()
    cells, kills = tmp_path / "killed" / "cells", 0
    for everyone in (True, False, False):
        process = start(tmp_path / "killed")
        seen = len(list(cells.glob("*.json"))) if cells.exists() else 0
        while process.poll() is None and (not cells.exists() or len(list(cells.glob("*.json"))) <= seen):
            time.sleep(0.01)
        if process.poll() is None:
            kills += 1
            (os.killpg if everyone else os.kill)(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
    assert kills == 3, "it was really cut short each time"
    last = start(tmp_path / "killed")
    out_again, err = last.communicate(timeout=300)
    assert last.returncode == 0, err.decode()
    assert json.loads(out_again)["cells"] == json.loads(out)["cells"]
    for name in ("results.csv", "results.json"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


def children(pid: int) -> list[int]:
    try:
        return [int(each) for task in Path(f"/proc/{pid}/task").iterdir() for each in (task / "children").read_text().split()]
    except OSError:
        return []


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux to find the workers")
def test_a_killed_worker_costs_one_cell_and_the_next_run_makes_it_up(tmp_path: Path) -> None:
    process = start(tmp_path / "out")
    cells = tmp_path / "out" / "cells"
    while process.poll() is None and not list(cells.glob("*.json")):
        time.sleep(0.01)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    out, err = process.communicate(timeout=300)
    failed, made = len(json.loads(out)["failed"]), len(json.loads(out)["cells"])
    assert failed + made == 24 and failed <= 1, "it may have been killed right after it wrote its cell"
    if failed:
        assert process.returncode == 1 and "its worker died" in err.decode() and "Try:" in err.decode()
    again = start(tmp_path / "out")
    out, err = again.communicate(timeout=300)
    assert again.returncode == 0, err.decode()
    assert len(json.loads(out)["cells"]) == 24


def test_workers_that_cannot_live_stop_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    found = sweep(grid(), tmp_path, workers=1)
    assert len(found.failed) == 3 and found.untried == 5
    assert "5 were not tried" in str(found.problem())


@pytest.mark.slow
def test_from_python(tmp_path: Path) -> None:
    found = rota.sweep(["fifo"], out=tmp_path, trace=JOBS, cluster=[CLUSTER, "8xV100"], vary={"trace.load": [0.5, 1]}, workers=2)
    assert len(found.rows) == 4 and "<table>" in found._repr_html_()
    pandas = pytest.importorskip("pandas")
    frame = found.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and sorted(set(frame["cluster"])) == [CLUSTER, "8xV100"]


def policy_file(folder: Path, body: str, name: str = "mine.py") -> str:
    path = folder / name
    code = f"class Mine:\n    def allocate(self, view):\n        {body}\n        return rota.Ranking.by(view.jobs.gpus)\n"
    path.write_text(f"import rota\n{code}")
    return f"{path}:Mine"


@pytest.mark.slow
def test_a_policy_may_print_and_raise_anything(tmp_path: Path) -> None:
    noisy = policy_file(tmp_path, "print('deciding')")
    leaving = policy_file(tmp_path, "raise SystemExit(3)", "leaving.py")
    found = sweep(grid(policies=(leaving, noisy, "fifo"), vary={}), tmp_path / "out", workers=2)
    assert len(found.rows) == 4 and len(found.failed) == 2
    assert all("SystemExit: 3" in each.error for each in found.failed)
    assert [each.cell.seed for each in found.failed] == [0, 1], "in the order of the grid"
    assert "2 cells failed" in str(found)


@pytest.mark.slow
def test_another_grid_in_the_same_folder_keeps_both(tmp_path: Path) -> None:
    """What a user did: two sweeps into one folder, and the results of the first were gone."""
    first = sweep(grid(vary={}, seeds=1), tmp_path, workers=1)
    before = (tmp_path / "results.csv").read_bytes()
    second = sweep(grid(policies=("las",), vary={}, seeds=1), tmp_path, workers=1)
    assert first.others == () and [(folder / "results.csv").read_bytes() for folder in second.others] == [before]
    assert f"also has the results of 1 other grid: {second.others[0]}" in str(second)
    latest = (tmp_path / "results.csv").read_text()
    assert "las" in latest and "fifo" not in latest
    again = sweep(grid(vary={}, seeds=1), tmp_path, workers=1)
    assert again.reused == 2 and (tmp_path / "results.csv").read_bytes() == before
    larger = sweep(grid(policies=("fifo", "srsf", "las"), vary={}, seeds=1), tmp_path, workers=1)
    assert larger.others == (), "it has all that was there before"
    assert larger.reused == 3


@pytest.mark.slow
def test_a_folder_of_an_earlier_version_keeps_its_grid(tmp_path: Path) -> None:
    sweep(grid(vary={}, seeds=1), tmp_path, workers=1)
    before = (tmp_path / "results.csv").read_bytes()
    shutil.rmtree(tmp_path / "grids")
    found = sweep(grid(policies=("las",), vary={}, seeds=1), tmp_path, workers=1)
    assert [(folder / "results.csv").read_bytes() for folder in found.others] == [before]


@pytest.mark.slow
def test_cells_of_another_version_are_run_again_and_the_result_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = grid(vary={}, seeds=1)
    assert not sweep(small, tmp_path, workers=1).outdated and not sweep(small, tmp_path, workers=1).outdated
    monkeypatch.setattr("rota.experiments.cell.sources", lambda: "another version")
    again = sweep(small, tmp_path, workers=1)
    assert again.outdated and again.reused == 0 and again.others == () and len(again.rows) == 2


@pytest.mark.slow
def test_a_failed_cell_is_told_once(tmp_path: Path) -> None:
    wide = JOBS.replace("largest=4", "largest=8")
    words = ["fifo", "srsf", "--trace", wide, "--cluster", "4xV100", "--cluster", "8xV100", "--out", str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-m", "rota", "sweep", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "can never run" not in done.stdout and done.stderr.count("can never run") == 1
    assert "2 cells failed: policy fifo, cluster 4xV100, seed 0 and 1 more: " in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[:2] == ["POLICY", "CLUSTER"], "a cluster of which nothing is known tells cells apart too"
    assert [line.split()[:3] for line in lines[3:5]] == [["fifo", "4xV100", "failed"], ["srsf", "4xV100", "failed"]]


@pytest.mark.slow
def test_queueing_and_rho_are_shown(tmp_path: Path) -> None:
    found = sweep(grid(vary={}, seeds=1), tmp_path, workers=1)
    heads, rows = found.cells()
    assert {"QUEUE", "RHO"} <= set(heads) and "-" not in rows[0]


def test_keys_know_files_in_options_and_placers(tmp_path: Path) -> None:
    history = tmp_path / "h.csv"
    placer = tmp_path / "p.py"

    def key() -> str:
        policies = (f"gittins:history={history}",)
        return grid(policies=policies, placers=(f"{placer}:Mine",), vary={}, seeds=1).cells()[0].key

    history.write_text("duration\n10\n")
    placer.write_text("a = 1\n")
    first = key()
    history.write_text("duration\n11\n")
    second = key()
    placer.write_text("a = 2\n")
    assert len({first, second, key()}) == 3


def test_values_keep_all_their_digits() -> None:
    cells = grid(vary={"trace.seed": (1234567,), "trace.load": (0.1234567,)}, seeds=1).cells()
    assert "seed=1234567" in cells[0].study.trace and "load=0.1234567" in cells[0].study.trace


def test_a_policy_with_its_own_placer_says_so_in_the_results(tmp_path: Path) -> None:
    cells = grid(policies=("fifo+spread", "fifo"), placers=("packed",), vary={}, seeds=1).cells()
    assert [cell.axes["placer"] for cell in cells] == ["spread", "packed"]
