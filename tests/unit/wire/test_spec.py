"""The job spec: all its fields, and the error for every mistake."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from rota.errors import SpecError
from rota.wire.spec import Batch, Range, Spec, read_spec, schema
from rota.wire.spec_examples import EXAMPLES

GOOD = r"""name: resnet50-bs64
run: torchrun train.py --data /data/imagenet
gpus: 4
accelerators: [a100, V100]
steps: 450_000
progress: 'step (\d+)/(\d+)'
checkpoint: {dir: ckpt, grace: 60s}
profile: resnet50/bs64
weight: 1
tenant: vision/pretraining
deadline: 2026-12-01T09:00
batch: {size: 256, min: 64, max: 2048}
retries: 2
workdir: .
env: {EPOCHS: "90"}
"""


def read(folder: Path, text: str) -> Spec:
    path = folder / "job.yaml"
    path.write_text(text)
    return read_spec(path)


def test_everything(tmp_path: Path) -> None:
    spec = read(tmp_path, GOOD)
    assert spec.run == "torchrun train.py --data /data/imagenet"
    assert (spec.gpus, spec.accelerators, spec.steps) == (4, ["A100", "V100"], 450_000)
    assert spec.checkpoint.grace == 60.0
    assert spec.env == {"EPOCHS": "90"}


def test_only_run_is_required(tmp_path: Path) -> None:
    spec = read(tmp_path, "run: [python, train.py]\n")
    assert spec.run == ["python", "train.py"]
    assert (spec.gpus, spec.weight, spec.retries, spec.accelerators) == (1, 1.0, 0, [])


def test_a_script_may_tell_its_steps_itself(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("run: python train.py\nprogress: session\n")
    assert read_spec(tmp_path / "job.yaml").progress == "session"


@pytest.mark.parametrize(("text", "gib"), [("12 GiB", 12.0), ("512MiB", 0.5), ("1.5", 1.5), ("8G", 8.0)])
def test_memory(tmp_path: Path, text: str, gib: float) -> None:
    assert read(tmp_path, f"run: x\ngpu_memory: {text}\n").gpu_memory == gib


def test_elastic(tmp_path: Path) -> None:
    spec = read(tmp_path, "run: x\ngpus: {min: 1, max: 8}\n")
    assert not isinstance(spec.gpus, int) and (spec.gpus.min, spec.gpus.max) == (1, 8)


@pytest.mark.parametrize(
    "old,new,line,words",
    [
        ("gpus: 4", "gpu: 4", 3, "unknown field 'gpu'. Closest: gpus"),
        ("run: t", "rum: t", 2, "unknown field 'rum'. Closest: run"),
        ("run: torchrun train.py --data /data/imagenet\n", "", 1, "needs 'run'"),
        ("run: torchrun train.py --data /data/imagenet", "run: ''", 2, "is empty"),
        ("run: torchrun train.py --data /data/imagenet", "run: []", 2, "is empty"),
        ("run: torchrun train.py --data /data/imagenet", "run: {a: 1}", 2, "string|list"),
        ("gpus: 4", "gpus: 0", 3, "from 1 to"),
        ("gpus: 4", "gpus: {min: 4, max: 2}", 3, "min is more than max"),
        ("gpus: 4", "gpus: many", 3, "integer"),
        ("gpus: 4", "gpus: 1.5", 3, "whole number from 1 to 1,000,000, or a fraction of one GPU"),
        ("[a100, V100]", "['A 100']", 4, "not an accelerator type"),
        ("steps: 450_000", "steps: 0", 5, "greater than or equal to 1"),
        (r"'step (\d+)/(\d+)'", "'step ('", 6, "not a regular expression"),
        (r"'step (\d+)/(\d+)'", "'step'", 6, "0 groups"),
        ("grace: 60s", "grace: soon", 7, "not a length of time"),
        ("grace: 60s", "grace: -1", 7, "greater than 0"),
        ("grace: 60s", "grade: 60s", 7, "unknown field 'grade'. Closest: grace"),
        ("weight: 1", "weight: 0", 9, "greater than or equal to 0.000001"),
        ("weight: 1", "weight: .nan", 9, "finite"),
        ("weight: 1", "gpu_memory: much", 9, "not a memory size. Write it like 12 GiB"),
        ("weight: 1", "gpu_memory: 0", 9, "greater than 0"),
        ("vision/pretraining", "/vision//x", 10, "not a tenant path"),
        ("2026-12-01T09:00", "tomorrow", 11, "datetime"),
        ("size: 256", "size: 2", 12, "not between min and max"),
        ("grace: 60s", "grace: 12 parsecs", 7, "not a length of time"),
        ("retries: 2", "retries: -1", 13, "greater than or equal to 0"),
        ("{EPOCHS", "{'A B'", 15, "cannot be an environment variable"),
        ("{EPOCHS", "{ROTA_JOB_ID", 15, "ROTA_JOB_ID is set by Rota"),
        ("{EPOCHS", "{CUDA_VISIBLE_DEVICES", 15, "CUDA_VISIBLE_DEVICES is set by Rota"),
        ("weight: 1", "weight: 1\nweight: 2", 10, "already given on line 9"),
        ("gpus: 4", "gpus: true", 3, "true or false"),
        ("retries: 2", "retries: yes", 13, "true or false"),
        ('EPOCHS: "90"', "EPOCHS: true", 15, "true or false"),
        ("2026-12-01T09:00", "5", 11, "Write a date"),
        ("dir: ckpt", "dir: ../../etc", 7, "not below the working directory"),
        ("dir: ckpt", "dir: /etc", 7, "not below the working directory"),
        ("workdir: .", "swep: {lr: [1, 2]}", 14, "unknown field 'swep'"),
        ("workdir: .", "after: [yes]", 14, "true or false"),
        ("workdir: .", "max_run_time: soon", 14, "not a length of time"),
        ("workdir: .", "notfy: {run: x}", 14, "unknown field 'notfy'"),
    ],
)
def test_mistakes_say_where(tmp_path: Path, old: str, new: str, line: int, words: str) -> None:
    assert old in GOOD
    with pytest.raises(SpecError, match=words) as caught:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert caught.value.line == line
    assert "job.yaml" in caught.value.message and "\n" not in caught.value.message and caught.value.hint


def test_the_schema_describes_every_field() -> None:
    properties = schema()["properties"]
    assert set(properties) == set(Spec.model_fields)
    assert all(field.description for field in Spec.model_fields.values())


def test_sizes_between_the_least_and_the_most() -> None:
    assert Range(min=1, max=8).counts == (1, 2, 3, 4, 5, 6, 7, 8)
    assert Range(min=6, max=33).counts == (6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 33)
    assert Range(min=3, max=3).counts == (3,)
    assert len(Range(min=1, max=1_000_000).counts) < 100
    assert Batch(size=64).sizes == (64,)
    assert Batch(size=48, min=10, max=200).sizes == (12, 24, 48, 96, 192)
    assert Batch(size=3, min=1, max=6).sizes == (3, 6), "only whole ones"


@pytest.mark.parametrize("name", ["42", "007"])
def test_a_name_is_not_a_number(name: str) -> None:
    with pytest.raises(ValidationError, match="is a number, which Rota would read as a job"):
        Spec.model_validate({"run": "true", "name": name})
    assert Spec.model_validate({"run": "true", "name": f"{name}a"}).name == f"{name}a"


def test_a_mistake_in_any_field_is_answered_with_a_line_that_is_right(tmp_path: Path) -> None:
    assert set(EXAMPLES) == set(Spec.model_fields)
    for field, example in EXAMPLES.items():
        lines = [part for part in re.split(r", or | or |, (?=gpus:)", example) if part.startswith(field)]
        assert lines, example
        for line in lines:
            assert read(tmp_path, line if field == "run" else f"run: x\n{line}\n")
    with pytest.raises(SpecError) as caught:
        read(tmp_path, "run: x\nsteps: 0\n")
    assert caught.value.hint == "steps: 10000"


@pytest.mark.parametrize(
    "pattern", ["(?i)" + "[!-\U0010ffff]" * 9 + r"(\d+)", r"(?i)[\x00-\U0010ffff]" * 9 + "(a)", "[a]" * 65 + "(b)"]
)
def test_a_pattern_that_takes_long_to_compile_is_refused(pattern: str) -> None:
    """The scheduler compiles it, for this user and again at each start. Hundreds of such classes take seconds."""
    with pytest.raises(ValidationError, match="too many character classes"):
        Spec(run="true", progress=pattern)
    assert Spec(run="true", progress="第 ([0-9]+) 步，共 ([0-9]+) 步").progress
