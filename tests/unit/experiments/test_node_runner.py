"""A cell that is sent to another machine: the same result as here, with none of the files of this machine."""

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.compose.fingerprint import Fingerprints
from rota.compose.study import Study
from rota.experiments import simulate_cell
from rota.experiments.cell import Cell, make_cell
from rota.experiments.copies import LOCK, InputCopies, remove_left
from rota.experiments.node_runner import NodeRunner, encode_cell
from rota.experiments.versions import versions
from rota.report.comparison import WALL_CLOCK

POLICY = "import rota\nclass Mine:\n    def allocate(self, view):\n        return rota.Ranking.by(view.jobs.gpus)\n"

READS = """
import rota
class Mine:
    def __init__(self, file: str):
        with open(file) as opened:
            self.lines = len(opened.readlines())
    def allocate(self, view):
        return rota.Ranking.by(view.jobs.gpus * self.lines)
"""
"""A policy that opens a file of its own."""
TACTIC = "import rota\nclass Moves(rota.Tactic):\n    def improve(self, draft):\n        pass\n"


@pytest.fixture
def there() -> Iterator[NodeRunner]:
    made = NodeRunner()
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files as a sweep may name them, in a folder that can be taken away."""
    found = tmp_path / "sweep" / "deep"
    (found / "runs").mkdir(parents=True)
    (found / "rates" / "throughputs_V100").mkdir(parents=True)
    (found / "jobs.csv").write_text("submit_time,gpus,duration\n0,1,600\n5,2,60\n9,4,300\n20,1,30\n")
    (found / "mine.py").write_text(POLICY)
    (found / "reads.py").write_text(READS)
    (found / "moves.py").write_text(TACTIC)
    (found / "cluster.yaml").write_text("nodes:\n  - count: 2\n    gpus: 4\n    accelerator: V100\n")
    (found / "runs" / "resnet.csv").write_text("uuid,perf\ng0,10\ng1,20\ng2,10\n")
    (found.parent / "list.json").write_text(json.dumps({"classA": str(found / "runs" / "resnet.csv")}))
    (found / "history.csv").write_text("duration\n100\n5000\n")
    (found / "rates" / "throughputs_V100" / "bert.csv").write_text("global_batch_size,1,2,4\n64,6.0,7.0,9.0\n128,3.0,4.0,5.0\n")
    monkeypatch.chdir(found)
    return found


def studies(folder: Path) -> dict[str, Study]:
    return {
        "a relative trace": Study("jobs.csv", cluster="8xV100"),
        "an absolute trace": Study(folder / "jobs.csv", cluster="8xV100", policy="srsf+spread"),
        "above the folder": Study("../deep/jobs.csv", cluster="8xV100", variability="../list.json"),
        "a policy": Study("jobs.csv", cluster="8xV100", policy="./mine.py:Mine"),
        "an absolute policy": Study("jobs.csv", cluster="8xV100", policy=f"{folder / 'mine.py'}:Mine+packed"),
        "a cluster": Study("jobs.csv", cluster=str(folder / "cluster.yaml")),
        "an option": Study("jobs.csv", cluster="8xV100", policy=f"gittins:history={folder / 'history.csv'}"),
        "an option of a policy": Study("jobs.csv", cluster="8xV100", policy="./reads.py:Mine:file=history.csv"),
        "a tactic": Study("jobs.csv", cluster="8xV100", tactics="./moves.py:Moves"),
        "a list of runs": Study("jobs.csv", cluster="8xV100", variability=folder.parent / "list.json"),
        "a folder of rates": Study("synthetic:jobs=5,gpus=8,largest=4", cluster="8xV100", profile=folder / "rates"),
        "no file": Study("synthetic:jobs=20,gpus=8,largest=4", cluster="8xV100", policy="tiresias"),
    }


def text_of(cell: Cell, folder: Path, sweeps: dict[str, str] | None = None) -> str:
    return encode_cell(cell.work(), sweeps or versions(), str(folder), cell.inputs)


def timeless(result: dict[str, Any]) -> str:
    summary = {name: value for name, value in result["summary"].items() if name not in WALL_CLOCK}
    return json.dumps({**result, "summary": summary})


@pytest.mark.slow
def test_every_cell_has_the_same_bytes_without_the_files(folder: Path, there: NodeRunner) -> None:
    expected, sent, contents = {}, {}, {}
    for name, study in studies(folder).items():
        cell = make_cell(study, {}, Fingerprints())
        expected[name] = timeless(json.loads(json.dumps(simulate_cell.run(study, {}, lambda *_: None))))
        contents |= {digest: Path(path).read_bytes() for path, digest in cell.inputs.items()}
        sent[name] = text_of(cell, folder)
    assert all(hashlib.sha256(content).hexdigest() == digest for digest, content in contents.items())
    folder.parent.rename(folder.parent.with_name("away"))
    os.chdir("/")
    for name, text in sent.items():
        answer = there.run(text, contents.__getitem__)
        assert "result" in answer, (name, answer)
        assert timeless(answer["result"]) == expected[name], name


@pytest.mark.slow
def test_what_goes_wrong_there_reads_as_here(folder: Path, there: NodeRunner) -> None:
    (folder / "bad.csv").write_text("submit_time,gpus,duration\n0,one,600\n")
    study = Study(folder / "bad.csv", cluster="8xV100")
    cell = make_cell(study, {}, Fingerprints())
    contents = {digest: Path(path).read_bytes() for path, digest in cell.inputs.items()}
    answer = there.run(text_of(cell, folder), contents.__getitem__)
    assert answer["error"].startswith(f"{folder / 'bad.csv'}:2  gpus: 'one'") and answer["hint"]
    leaving = POLICY.replace("return", "raise SystemExit(3)\n        return")
    (folder / "mine.py").write_text(leaving)
    cell = make_cell(Study("demo", policy="./mine.py:Mine"), {}, Fingerprints())
    answer = there.run(text_of(cell, folder), lambda _: leaving.encode())
    assert "SystemExit: 3" in answer["error"]


@pytest.mark.slow
def test_a_worker_that_dies_is_told_and_the_next_cell_has_another(folder: Path, there: NodeRunner) -> None:
    dying = POLICY.replace("return", "import os; os._exit(7)\n        return")
    (folder / "mine.py").write_text(dying)
    cell = make_cell(Study("demo", policy="./mine.py:Mine"), {}, Fingerprints())
    answer = there.run(text_of(cell, folder), lambda _: dying.encode())
    assert answer["died"] and "its worker died (exit code 7)" in answer["error"]
    assert "result" in there.run(text_of(make_cell(Study("demo"), {}, Fingerprints()), folder), lambda _: b"")


def test_a_copy_that_is_damaged_is_not_used(folder: Path, there: NodeRunner) -> None:
    cell = make_cell(Study("jobs.csv", cluster="8xV100"), {}, Fingerprints())
    answer = there.run(text_of(cell, folder), lambda _: b"other")
    assert "jobs.csv is damaged" in answer["error"]


@pytest.mark.slow
def test_other_versions_calculate_nothing(folder: Path, there: NodeRunner) -> None:
    sweeps = {**versions(), "numpy": "1.0"}
    answer = there.run(text_of(make_cell(Study("demo"), {}, Fingerprints()), folder, sweeps), lambda _: b"")
    assert answer == {"other": [f"numpy {versions()['numpy']}, not 1.0"]}


def test_nothing_is_written_outside_the_root(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    copies = InputCopies("/home/me", tmp_path / "x")
    digest = hashlib.sha256(b"mine").hexdigest()
    copies.put({"../../../../../../../../escaped.csv": digest, "/etc/y": digest}, lambda _: b"mine")
    assert (copies.root / "escaped.csv").read_bytes() == (copies.root / "etc" / "y").read_bytes() == b"mine"
    assert list(tmp_path.iterdir()) == [tmp_path / "x"] and list((tmp_path / "x").iterdir()) == [copies.root]
    copies.close()
    assert not list((tmp_path / "x").iterdir())


def test_folders_of_processes_that_are_gone_are_removed(tmp_path: Path) -> None:
    kept = InputCopies("/home/me", tmp_path)
    left = InputCopies("/home/me", tmp_path)
    os.close(left.lock)  # as the end of its process does
    (tmp_path / "rota-cells-young").mkdir()  # not locked yet
    (tmp_path / "rota-cells-link").symlink_to(kept.root)
    remove_left(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([kept.root.name, "rota-cells-young", "rota-cells-link"])
    assert (kept.root / LOCK).exists()
    kept.close()
