"""The record of a submission, and its JSON in homes."""

import json

import pytest

from rota.errors import JournalError
from rota.live.requests import asked_for, submitted_job
from rota.wire.spec import Spec
from rota.wire.submitted import SubmittedJob

IN_A_HOME = (
    '{"name": "job-1", "user": "ana", "argv": ["bash", "-c", "python train.py"], "command": "python train.py", '
    '"workdir": "/home/ana", "env": {"PATH": "/bin"}, "gpus": 2, "accelerators": ["V100"], "steps": 100, "profile": "", '
    '"progress": "step (.*)", "weight": 1.0, "tenant": "", "deadline_at": null, "retries": 0, "grace_seconds": 60.0, '
    '"checkpoint_dir": "/home/ana"}'
)
"""As version 0.1.0 wrote it before there was a record."""


def test_a_home_of_before_is_read_and_written_alike() -> None:
    job = SubmittedJob.from_plain(json.loads(IN_A_HOME))
    assert (job.argv, job.accelerators, job.deadline_at) == (("bash", "-c", "python train.py"), ("V100",), None)
    new = {"gpu_counts": [], "batch_size": 0, "batch_sizes": [], "saves": True, "preemptible": None}
    new |= {"park": True, "gpu_gib": 0.0, "idempotency_key": ""}
    assert job.to_plain() == json.loads(IN_A_HOME) | new


def test_a_spec_becomes_a_record_and_comes_back() -> None:
    spec = Spec(run=["train", "--fast"], gpus={"min": 1, "max": 2}, batch={"size": 8, "max": 16}, env={"EPOCHS": 90})
    job = submitted_job(spec, "ana", "/work", {"PATH": "/bin"})
    assert (job.gpus, job.gpu_counts, job.batch_size, job.batch_sizes) == (2, (1, 2), 8, (8, 16))
    assert (job.argv, job.env, job.name) == (("train", "--fast"), {"PATH": "/bin", "EPOCHS": "90"}, "")
    assert SubmittedJob.from_plain(json.loads(json.dumps(job.to_plain()))) == job


@pytest.mark.parametrize(
    ("said", "place"),
    [(None, "/work"), ("ckpt", "/work/ckpt"), ("s3://bucket/ckpt", "s3://bucket/ckpt"), ("file:///data", "file:///data")],
)
def test_checkpoints_are_below_the_working_folder_or_where_a_url_says(said: str | None, place: str) -> None:
    job = submitted_job(Spec(run="train", checkpoint={"dir": said}), "ana", "/work", {})
    assert job.checkpoint_dir == place == asked_for(job)["checkpoint"]["dir"]


def test_fields_of_another_version() -> None:
    plain = json.loads(IN_A_HOME)
    assert SubmittedJob.from_plain({**plain, "colour": "red"}) == SubmittedJob.from_plain(plain)
    del plain["deadline_at"]
    assert SubmittedJob.from_plain(plain).deadline_at is None
    del plain["argv"]
    with pytest.raises(JournalError, match="record of job 'job-1' has no argv"):
        SubmittedJob.from_plain(plain)
