"""Scripts as jobs: `#SBATCH` and `#ROTA` lines, and the program that runs a script."""

from pathlib import Path
from typing import Any

import pytest

from rota.errors import SpecError
from rota.wire.script import read_script
from rota.wire.slurm_directives import BY_NAME, DIRECTIVES, Takes
from rota.wire.spec import Spec, spec_from


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def script(*lines: str) -> str:
        Path("train.sh").write_text("\n".join(("#!/bin/bash", *lines, "python train.py", "")))
        return "train.sh"

    return script


def fields(path: str) -> dict[str, Any]:
    """The fields of a script, apart from those that every script has."""
    root = read_script(path).root
    spec_from(root)
    return {name: value for name, value in root.plain().items() if name not in ("run", "name")}


def test_a_script_without_directives(write: Any) -> None:
    script = read_script(write("# an ordinary comment", "#SBATCHES --array=1", "##SBATCH --array=1", "# SBATCH --array=1"))
    assert script.root.plain() == {"name": "train", "run": ["bash", "train.sh"]} and script.notes == ()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--gpus=2", {"gpus": 2}),
        ("-G 2", {"gpus": 2}),
        ("-Ga100:2", {"gpus": 2, "accelerators": ["a100"]}),
        ("--gres=gpu", {"gpus": 1}),
        ("--gres gpu:3", {"gpus": 3}),
        ("--gres=gpu:v100", {"gpus": 1, "accelerators": ["v100"]}),
        ("--gres=gpu:v100:4(S:0-1)", {"gpus": 4, "accelerators": ["v100"]}),
        ("--nodes=1 --gpus-per-node=v100:4", {"gpus": 4, "accelerators": ["v100"]}),
        ("-N 2 --gres=gpu:4", {"gpus": 8}),
        ("-N2 --gpus-per-node=4 --gpus=6", {"gpus": 6}),
        ("--gpus-per-task=2 --ntasks=3", {"gpus": 6}),
        ("--gpus=1 --gpus=2", {"gpus": 2}),
        ("-D /srv/train", {"workdir": "/srv/train"}),
        ("--account vision", {"tenant": "vision"}),
        ("--deadline=2040-01-20T12:34:00", {"deadline": "2040-01-20T12:34:00"}),
        ("--export=ALL", {}),
        ("--export=NONE,EPOCHS=90,HF_TOKEN", {"env": {"EPOCHS": "90", "HF_TOKEN": None}}),
        ("--signal=B:TERM@120", {"checkpoint": {"grace": 120}}),
        ("--signal=SIGTERM", {"checkpoint": {"grace": 60}}),
        ("--requeue # as always", {}),
    ],
)
def test_an_option_that_sets_a_field(write: Any, line: str, expected: dict[str, Any]) -> None:
    assert fields(write(f"#SBATCH {line}")) == expected


def test_a_time_in_each_format_of_slurm(write: Any) -> None:
    found = {text: fields(write(f"#SBATCH -t {text}")).get("max_run_time") for text in TIMES}
    assert found == TIMES


TIMES = {
    "90": 5400,
    "90:30": 5430,
    "2:30:15": 9015,
    "1-12": 129600,
    "1-12:30": 131400,
    "1-12:30:01": 131401,
    "UNLIMITED": None,
    "0": None,
}


def test_arrays_dependencies_and_priorities(write: Any) -> None:
    found = fields(write("#SBATCH --array=0-9%2 -d afterok:3:4_7,afterany:5", "#SBATCH --priority=-5"))
    after = [{"job": 3, "when": "ok"}, {"job": "4_7", "when": "ok"}, {"job": 5, "when": "ended"}]
    assert found == {"array": "0-9%2", "after": after, "priority": -5}
    spec = spec_from(read_script(write("#SBATCH --array=0-9%2 -d afternotok:3")).root)
    assert (spec.array.indices, spec.array.at_once, str(spec.awaited[0].when)) == ("0-9", 2, "failed")
    with pytest.raises(SpecError, match=r"train.sh:2  array: '9-0' — '9-0' is not a range upwards"):
        spec_from(read_script(write("#SBATCH --array=9-0")).root)


def test_a_name_with_blanks_and_the_last_line_that_counts(write: Any) -> None:
    root = read_script(write("#SBATCH --job-name 'big net' # don't", "", "#SBATCH -J net2")).root
    assert root.plain()["name"] == "net2"
    path = write("echo start", "#SBATCH --array=0-9", "#ROTA gpus: 4")
    assert fields(path) == {}, "below the first command nothing is read"


def test_our_own_lines_win_and_know_their_lines(write: Any) -> None:
    path = write(
        "#SBATCH --gpus=2 -J slurm",
        "#ROTA gpus: {min: 1, max: 4}",
        "#ROTA checkpoint:",
        "#ROTA   grace: 30s",
        "#ROTA compat: slurm",
    )
    assert fields(path) == {"gpus": {"min": 1, "max": 4}, "checkpoint": {"grace": "30s"}, "compat": "slurm"}
    with pytest.raises(SpecError, match=r"train.sh:3  gpu — unknown field 'gpu'. Closest: gpus"):
        spec_from(read_script(write("#SBATCH --gpus=2", "#ROTA gpu: 4")).root)
    with pytest.raises(SpecError, match=r"train.sh:2  gpus: '99999999'"):
        spec_from(read_script(write("#SBATCH --gpus=99999999")).root)
    with pytest.raises(SpecError, match=r"train.sh:4 — is not YAML"):
        read_script(write("", "#ROTA gpus: 4", "#ROTA : ["))
    with pytest.raises(SpecError, match=r"train.sh:2  run: .* — is the script itself"):
        read_script(write("#ROTA run: python other.py"))


def test_an_option_without_effect_is_noted_with_the_reason(write: Any) -> None:
    script = read_script(write("#SBATCH --qos=high --mem-per-gpu=8G", "#SBATCH --nodes=2 --ntasks=1 -o out/%j", "#SBATCH -n 4"))
    assert script.notes == (
        "train.sh:2  --qos: ignored. The policy of the scheduler decides the order.",
        "train.sh:2  --mem-per-gpu: ignored. Write #SBATCH --mem=SIZE, for each node.",
        "train.sh:3  -o: ignored. The output is in rota logs.",
        "train.sh:4  -n: ignored. Srun starts tasks, and Rota runs the script once on each node; start more processes with "
        "torchrun.",
        "train.sh:3  --nodes: only counts GPUs. Rota chooses how many nodes the GPUs of the job are on.",
    )


@pytest.mark.parametrize(
    ("text", "gib"), [("8G", 8.0), ("512", 0.5), ("1T", 1024.0), ("1048576K", 1.0), ("2GB", 2.0), ("0", None)]
)
def test_memory_is_that_of_each_node_in_megabytes_by_default(write: Any, text: str, gib: float | None) -> None:
    assert fields(write(f"#SBATCH --mem={text}")).get("memory") == gib


WRONG = [
    ("--mem=8X", "is not a memory size of Slurm"),
    ("--dependency=after:3", "train.sh:2  --dependency: 'after:3' — is not a dependency that Rota has"),
    ("--dependency=afterok:3?afterok:4", "is not a dependency that Rota has"),
    ("--priority=TOP", "--priority: 'TOP' — is not a priority of Rota, from -1000 to 1000."),
    (
        "-b now --gpus=1 --hold",
        "train.sh:2  -b: 'now' — cannot be honoured: Rota does not start jobs at a time. Also refused: --hold (line 2).",
    ),
    ("--constraint=ib", "--constraint: 'ib' — cannot be honoured"),
    ("--signal=USR1@60", "--signal: 'USR1@60' — is not SIGTERM"),
    ("--gpus=two", "--gpus: 'two' — is not a whole number above 0."),
    ("--gpus=0", "--gpus: '0' — is not a whole number above 0."),
    ("--gres=shard:1", "--gres: 'shard:1' — is not a number of GPUs"),
    ("--gres=gpu:1,shard:2", "--gres: 'gpu:1,shard:2' — is not a number of GPUs"),
    ("--nodes=2-4", "--nodes: '2-4' — is not a whole number above 0."),
    ("--gpus-per-task=2", "--gpus-per-task: '2' — is for each task, and the number of tasks is not given."),
    ("--time=soon", "--time: 'soon' — is not a length of time of Slurm."),
    ("--export=1X=2", "--export: '1X=2' — is not a list of variables."),
    ("--gpu=1", "train.sh:2  --gpu — is not an option of sbatch that Rota knows. Closest: gpus."),
    ("--gpus", "train.sh:2  --gpus — has no value."),
    ("--requeue=yes", "--requeue: 'yes' — takes no value."),
    ("gpus=2", "#SBATCH: 'gpus=2' — is not an option."),
    ("--job-name='open", "train.sh:2 — cannot be read: No closing quotation."),
]


@pytest.mark.parametrize(("line", "told"), WRONG, ids=[line for line, _ in WRONG])
def test_an_option_that_is_refused(write: Any, line: str, told: str) -> None:
    with pytest.raises(SpecError) as problem:
        read_script(write(f"#SBATCH {line}"))
    assert told in problem.value.message and problem.value.hint


def test_the_table_is_complete_and_has_one_meaning_for_each_option() -> None:
    names = [name for each in DIRECTIVES for name in each.names]
    assert len(names) == len(set(names)) == len(BY_NAME)
    for each in DIRECTIVES:
        assert each.read or each.ignored or each.refused, each.names
        assert bool(each.refused) == bool(each.hint), each.names
        assert not (each.read and each.refused), each.names
        if each.takes is Takes.NOTHING and each.read:
            assert each.read("") == {}


@pytest.mark.parametrize(
    ("option", "field"), [("dependency", "after"), ("time", "max_run_time"), ("array", "array"), ("priority", "priority")]
)
def test_an_option_of_a_field_that_a_spec_has_sets_it(option: str, field: str) -> None:
    ignored = bool(BY_NAME[option].ignored or BY_NAME[option].refused)
    assert ignored == (field not in Spec.model_fields), f"change the line of --{option} in rota/wire/slurm_directives.py"


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_script_in_another_encoding(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "train.sh").write_text("#SBATCH --gpus=2\necho é\n", encoding=encoding)
    assert read_script(tmp_path / "train.sh").root.plain().get("gpus", 1) == (2 if encoding == "latin-1" else 1)


def test_a_script_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no such script"):
        read_script(tmp_path / "none.sh")
    with pytest.raises(SpecError, match="Is a directory"):
        read_script(tmp_path)


def test_python_is_that_of_the_active_environment_else_the_first_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text('#ROTA gpus: 2\n"""Trains."""\n')
    for folder in ("venv/bin", "first"):
        Path(folder).mkdir(parents=True)
        for name in ("python", "python3"):
            Path(folder, name).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path / "first"))
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))

    def run() -> list[str]:
        found: list[str] = read_script("train.py", ["--epochs", "3"]).root.plain()["run"]
        return found

    assert run() == [str(tmp_path / "venv/bin/python"), "train.py", "--epochs", "3"]
    monkeypatch.delenv("VIRTUAL_ENV")
    assert run()[0] == str(tmp_path / "first/python")
    Path("first/python").unlink()
    assert run()[0] == str(tmp_path / "first/python3")
    Path("first/python3").unlink()
    with pytest.raises(SpecError, match=r"train.py — there is no Python on the path") as problem:
        run()
    assert problem.value.hint.startswith("rota submit -- ")


def test_a_script_with_another_folder_is_found_there(write: Any) -> None:
    assert read_script(write("#SBATCH --chdir=/srv")).root.plain()["run"] == ["bash", str(Path.cwd() / "train.sh")]
    assert read_script(write("#ROTA workdir: /srv")).root.plain()["run"][1] == str(Path.cwd() / "train.sh")
