"""The fingerprint of a study changes with the contents of every file that the study reads."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rota.compose.fingerprint import FILES, Fingerprints
from rota.compose.study import Study, study_fields


def fingerprint(study: Study) -> str:
    return Fingerprints().of(study)


def scores(folder: Path) -> tuple[Path, Study]:
    return folder / "scores.csv", Study("demo", variability=folder / "scores.csv")


def folder_of_runs(folder: Path) -> tuple[Path, Study]:
    (folder / "profiles.json").write_text(json.dumps({"classA": "elsewhere/runs.csv"}))
    (folder / "elsewhere").mkdir()
    return folder / "elsewhere" / "runs.csv", Study("demo", variability=folder)


def list_of_runs(folder: Path) -> tuple[Path, Study]:
    (folder / "machine.json").write_text(json.dumps({"classA": str(folder / "runs.csv")}))
    return folder / "runs.csv", Study("demo", variability=str(folder / "machine.json"))


def folder_of_rates(folder: Path) -> tuple[Path, Study]:
    (folder / "throughputs_A100").mkdir()
    return folder / "throughputs_A100" / "bert.csv", Study("demo", profile=folder)


CASES: dict[str, Callable[[Path], tuple[Path, Study]]] = {
    "trace": lambda folder: (folder / "jobs.csv", Study(folder / "jobs.csv")),
    "rates of a generated trace": lambda folder: (folder / "r.csv", Study(f"gavel:jobs=5,profile={folder / 'r.csv'}")),
    "cluster": lambda folder: (folder / "c.yaml", Study("demo", cluster=str(folder / "c.yaml"))),
    "rates": lambda folder: (folder / "r.csv", Study("demo", profile=folder / "r.csv")),
    "folder of rates": folder_of_rates,
    "tensors": lambda folder: (folder / "t.csv", Study("demo", tensors=str(folder / "t.csv"))),
    "scores": scores,
    "folder of runs": folder_of_runs,
    "list of runs": list_of_runs,
    "tenants": lambda folder: (folder / "t.yaml", Study("demo", policy=f"hierarchical:tenants={folder / 't.yaml'}")),
    "history": lambda folder: (folder / "h.csv", Study("demo", policy=f"gittins:promote=1,history={folder / 'h.csv'}")),
    "policy": lambda folder: (folder / "mine.py", Study("demo", policy=f"{folder / 'mine.py'}:Mine:alpha=2")),
    "placer": lambda folder: (folder / "p.py", Study("demo", placer=f"{folder / 'p.py'}:Mine")),
    "placer behind a plus": lambda folder: (folder / "p.py", Study("demo", policy=f"fifo+{folder / 'p.py'}:Mine")),
}


@pytest.mark.parametrize("case", CASES)
def test_a_file_that_changed_is_noticed(tmp_path: Path, case: str) -> None:
    path, study = CASES[case](tmp_path)
    path.write_text("uuid,perf\n1,2\n")
    before = fingerprint(study)
    assert fingerprint(study) == before, "nothing changed"
    path.write_text("uuid,perf\n1,3\n")
    assert fingerprint(study) != before


def test_the_list_of_files_counts_too(tmp_path: Path) -> None:
    _, study = folder_of_runs(tmp_path)
    (tmp_path / "elsewhere" / "runs.csv").write_text("uuid,perf\n1,2\n")
    before = fingerprint(study)
    (tmp_path / "profiles.json").write_text(json.dumps({"classB": "elsewhere/runs.csv"}))
    assert fingerprint(study) != before


def test_every_field_that_may_be_a_path_is_looked_into() -> None:
    assert {name for name, field in study_fields().items() if "Path" in str(field.type)} <= FILES.keys()


def test_fields_count() -> None:
    studies = [Study("demo"), Study("demo", seed=1), Study("demo", policy="las"), Study("demo", wait_for_locality=True)]
    assert len({fingerprint(study) for study in studies}) == len(studies)
    assert fingerprint(Study("demo", policy="fifo")) == fingerprint(Study("demo")), "a default that is said"


def test_a_file_that_is_missing_is_left_to_its_reader(tmp_path: Path) -> None:
    assert fingerprint(Study(tmp_path / "absent.csv", variability=tmp_path / "none", policy=":")) != fingerprint(Study("demo"))
