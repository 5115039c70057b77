"""Sweeps on a real Ray cluster of several nodes on this machine: the same bytes as without it, whatever is killed on the way."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rota
from rota.report.comparison import WALL_CLOCK
from tests.live.harness import heed_interrupts, until
from tests.live.ray_cluster import SETTINGS, RayCluster

pytestmark = pytest.mark.nightly

PACKAGE = Path(rota.__file__).parent
LONG = 300.0
SILENT_SECONDS = 40.0
"""A cell may say nothing for long: with a short keepalive Ray would end it after half a minute."""
OTHER = f"rota {rota.__version__} with other source files"

GATED = """
import os, pathlib, time
import rota
GATE = pathlib.Path({gate!r})
class Gated:
    def allocate(self, view):
        while not (GATE / "open").exists():
            (GATE / f"{{os.getpid()}}.waits").touch()
            time.sleep(0.05)
        return rota.Ranking.by(view.jobs.gpus)
"""
"""A policy whose cells wait until a gate is open, so that a sweep is half way for as long as a test wants."""

GENERATED = "synthetic:jobs=30,gpus=8,largest=4,longest_seconds=20000"
FREE, CELLS = 6, 12
"""Cells that do not wait for the gate, and all."""


class Bench:
    """A folder with the files of a sweep, and ways to run it."""

    def __init__(self, folder: Path, cluster: RayCluster) -> None:
        self.folder, self.gate, self.cluster = folder, folder / "gate", cluster
        self.gate.mkdir(parents=True)
        (folder / "gated.py").write_text(GATED.format(gate=str(self.gate)))
        (folder / "jobs.csv").write_text("submit_time,gpus,duration\n0,1,600\n5,2,60\n9,4,300\n20,1,30\n")
        self.started: list[subprocess.Popen[bytes]] = []
        self.before: set[int] = set()
        """Processes that waited before the last sweep was started."""

    def start(self, out: str, *words: str) -> "subprocess.Popen[bytes]":
        """The policy is named by a relative path, one trace by an absolute one. Both travel to the nodes."""
        grid = ["fifo", "./gated.py:Gated", "--trace", str(self.folder / "jobs.csv"), "--trace", GENERATED, "--seeds", "3"]
        command = [sys.executable, "-m", "rota", "sweep", *grid, "--cluster", "8xV100", "--out", out, *words]
        with self._said(len(self.started)).open("w") as said:
            process = subprocess.Popen(
                command,
                stdout=said,
                stderr=said,
                cwd=self.folder,
                env={**os.environ, **SETTINGS},
                preexec_fn=heed_interrupts,
            )
        self.started.append(process)
        return process

    def said(self, process: "subprocess.Popen[bytes]") -> str:
        """Everything that it has said so far."""
        return self._said(self.started.index(process)).read_text()

    def _said(self, number: int) -> Path:
        return self.folder / f"{number}.said"

    def on_ray(self) -> "subprocess.Popen[bytes]":
        self.before = set(self.waiting())
        return self.start("ray", "--ray", self.cluster.address)

    def here(self) -> None:
        """The same sweep on this machine."""
        process = self.start("here")
        assert process.wait(LONG) == 0, self.said(process)

    def half_way(self, process: "subprocess.Popen[bytes]", nodes: list[str]) -> None:
        """Wait until all cells that can be done are there, and each of these nodes has one that waits."""

        def reached() -> bool:
            assert process.poll() is None, self.said(process)
            return self.kept() == FREE and all(self.held(node) for node in nodes)

        until(reached, f"{FREE} cells are there, and one waits on each of {nodes}", LONG)

    def held(self, node: str) -> set[int]:
        """Processes on this node that have a cell which waits."""
        return (set(self.waiting()) - self.before) & set(self.cluster.processes(node))

    def kept(self) -> int:
        return len(list((self.folder / "ray" / "cells").glob("*.json")))

    def waiting(self) -> list[int]:
        """Processes that have a cell which waits, or had one."""
        return [int(path.stem) for path in self.gate.glob("*.waits")]

    def done(self, process: "subprocess.Popen[bytes]") -> None:
        """Open the gate and wait for the end."""
        (self.gate / "open").touch()
        assert process.wait(LONG) == 0, self.said(process)

    def close(self) -> None:
        (self.gate / "open").touch()
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait()


def same(one: Path, other: Path) -> None:
    """Every byte of two sweeps is the same; each cell also has how long it took, which is not."""
    for name in ("grid.json", "results.csv", "results.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    cells = sorted(path.name for path in (one / "cells").glob("*.json"))
    assert cells == sorted(path.name for path in (other / "cells").glob("*.json")) and len(cells) == CELLS
    for name in cells:
        assert timeless(one / "cells" / name) == timeless(other / "cells" / name)


def timeless(path: Path) -> str:
    found = json.loads(path.read_text())
    found["summary"] = {name: value for name, value in found["summary"].items() if name not in WALL_CLOCK}
    return json.dumps(found)


def runs(pid: int) -> bool:
    """Whether a process that had a cell is still there."""
    try:
        return b"rota.experiments.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    with contextlib.closing(RayCluster(tmp_path_factory.mktemp("ray"))) as made:
        made.add("n1", 0, "V100")
        made.add("n2", 0, "V100")
        yield made


def test_stopped_killed_and_with_a_node_lost_it_ends_with_the_same_bytes(tmp_path: Path, cluster: RayCluster) -> None:
    with contextlib.closing(Bench(tmp_path, cluster)) as bench:
        stopped = bench.on_ray()
        bench.half_way(stopped, ["n1", "n2"])
        stopped.send_signal(signal.SIGINT)
        assert stopped.wait(LONG) == 130, bench.said(stopped)
        assert "cells run on 3 nodes, 3 CPUs" in bench.said(stopped)
        assert f"Stopped: {FREE} of {CELLS} cells are kept in ray." in bench.said(stopped)

        killed = bench.on_ray()
        bench.half_way(killed, ["n1", "n2"])
        killed.kill()
        killed.wait()

        last = bench.on_ray()
        bench.half_way(last, ["n1", "n2"])
        cluster.kill("n2")
        cluster.add("n3", 0, "V100")
        bench.half_way(last, ["n1", "n3"])
        bench.done(last)
        assert len(bench.waiting()) >= 6, "cells were really ended half way"
        until(lambda: not any(map(runs, bench.waiting())), "none of the cells that were ended goes on")
        bench.here()
        same(tmp_path / "ray", tmp_path / "here")


def test_nodes_that_would_give_other_bytes(tmp_path: Path, cluster: RayCluster) -> None:
    """One that joins later is left out; one that is there before a sweep is an error that names it."""
    shutil.copytree(PACKAGE, tmp_path / "other" / "rota", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "other" / "rota" / "errors.py").open("a") as file:
        file.write("# a change\n")
    with contextlib.closing(Bench(tmp_path / "bench", cluster)) as bench:
        late = bench.on_ray()
        bench.half_way(late, ["n1"])
        held = bench.held("n1")
        time.sleep(SILENT_SECONDS)
        assert bench.held("n1") == held, "a cell that says nothing for long is not started again"
        cluster.add("changed", 0, "V100", env={"PYTHONPATH": str(tmp_path / "other")})
        try:
            refused = bench.start("refused", "--ray", cluster.address)
            assert refused.wait(LONG) == 2, bench.said(refused)
            assert re.search(rf"changed \(\S+\) has {OTHER}\.\nTry: the same Rota", bench.said(refused)), bench.said(refused)
            assert not list((bench.folder / "refused" / "cells").glob("*.json"))
            left_out = re.compile(rf"note: changed \(\S+\) has {OTHER} and is left out\.\n")
            until(lambda: left_out.search(bench.said(late)) is not None, "the node is left out", LONG)
            bench.done(late)
        finally:
            cluster.kill("changed")
        assert bench.kept() == CELLS


REPRODUCE = """
import sys
from dataclasses import replace
from rota.cli.main import main
from rota.papers import gandiva_experiments, reproduce
from rota.papers.gandiva_rates import made_up_rates
scale = gandiva_experiments.GandivaScale(
    seeds=1, jobs=20, loads=(1.2,), factors=(0.6,), ways=("link",), fragments=(), searches=(), few=(), tiresias_jobs=20
)
cells = lambda request: gandiva_experiments.grid(scale, made_up_rates(), request.inputs)
reproduce.PAPERS = {"gandiva": replace(reproduce.PAPERS["gandiva"], cells=cells)}
sys.argv[0] = "rota"
main()
"""
"""`rota reproduce gandiva` with few jobs. Its simulations read tables of rates that the command generates."""


def test_a_paper_has_the_same_claims(tmp_path: Path, cluster: RayCluster) -> None:
    def reproduced(out: str, *words: str) -> tuple[object, str]:
        command = [
            sys.executable,
            "-c",
            REPRODUCE,
            "reproduce",
            "gandiva",
            "--out",
            out,
            "--html",
            f"{out}.html",
            "-o",
            "json",
            *words,
        ]
        env = {**os.environ, **SETTINGS}
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env, timeout=LONG)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["claims"], done.stderr

    here, _ = reproduced("here")
    there, said = reproduced("there", "--ray", cluster.address)
    assert there == here and "simulations run on" in said
    cells = sorted(path.name for path in (tmp_path / "here" / "cells").glob("*.json"))
    assert cells and len(cells) == len(list((tmp_path / "there" / "cells").glob("*.json")))
