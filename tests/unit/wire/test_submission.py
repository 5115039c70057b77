"""A submission, and the JSON that homes hold."""

import json
from typing import Any

import pytest

from rota.errors import JournalError, SpecError
from rota.live.requests import shown_spec, to_job_spec
from rota.wire.spec import Spec
from rota.wire.submission import Submission, decode_submission, encode_submission

IN_A_HOME = (
    '{"name": "job-1", "user": "ana", "argv": ["bash", "-c", "python train.py"], "command": "python train.py", '
    '"workdir": "/home/ana", "env": {"PATH": "/bin"}, "gpus": 2, "accelerators": ["V100"], "steps": 100, "profile": "", '
    '"progress": "step (.*)", "weight": 1.0, "tenant": "", "deadline_at": null, "retries": 0, "grace_seconds": 60.0, '
    '"checkpoint_dir": "/home/ana"}'
)
"""As version 0.1.0 wrote it before there was a record."""
LATER: dict[str, Any] = {
    "gpu_counts": [1, 2],
    "batch_size": 64,
    "batch_sizes": [32, 64, 128],
    "saves": None,
    "preemptible": False,
    "park": False,
    "gpu_gib": 12.5,
    "idempotency_key": "k",
    "checkpoint_dir": "/home/ana/c/d",
    "deadline_at": 1900000000.0,
    "profile": "r/b",
}
"""Fields that later versions added to it or filled in."""


def stored(sent: Submission) -> Submission:
    return decode_submission(json.loads(json.dumps(encode_submission(sent))))


def test_a_home_of_0_1_is_read() -> None:
    sent = decode_submission(json.loads(IN_A_HOME))
    assert (sent.argv, sent.spec.accelerators, sent.spec.deadline) == (("bash", "-c", "python train.py"), ["V100"], None)
    assert (sent.user, sent.folder, sent.checkpoint_dir, sent.variables) == ("ana", "/home/ana", "/home/ana", {"PATH": "/bin"})
    assert (sent.spec.profile, sent.spec.tenant, sent.spec.gpu_memory, sent.spec.batch) == (None, None, None, None)
    assert sent.spec.checkpoint.saves is True and sent.idempotency_key is None
    assert stored(sent) == sent


def test_what_later_versions_added_is_read() -> None:
    sent = decode_submission(json.loads(IN_A_HOME) | LATER)
    assert shown_spec(sent, "net") == {
        "run": "python train.py",
        "name": "net",
        "gpus": {"min": 1, "max": 2},
        "accelerators": ["V100"],
        "steps": 100,
        "progress": "step (.*)",
        "checkpoint": {"dir": "/home/ana/c/d", "grace": 60.0, "saves": None},
        "park": False,
        "preemptible": False,
        "gpu_memory": "12.5 GiB",
        "cpus": None,
        "memory": None,
        "profile": "r/b",
        "weight": 1.0,
        "tenant": None,
        "deadline": "2030-03-17T17:46:40Z",
        "priority": 0,
        "after": [],
        "max_run_time": None,
        "batch": {"size": 64, "min": 32, "max": 128},
        "retries": 0,
        "workdir": "/home/ana",
        "env": ["PATH"],
        "sweep": {},
        "array": None,
        "notify": None,
        "compat": None,
    }
    assert sent.idempotency_key == "k" and stored(sent) == sent


def test_a_deadline_that_no_date_can_say_becomes_the_last_one() -> None:
    """Early versions accepted it."""
    far = decode_submission(json.loads(IN_A_HOME) | {"deadline_at": 1e15}).spec.deadline
    assert far is not None and far.year == 9999


def test_a_spec_is_stored_as_it_was_submitted() -> None:
    spec = Spec(
        run=["train", "--fast"],
        gpus={"min": 1, "max": 2},
        batch={"size": 8, "max": 16},
        env={"EPOCHS": 90, "HOME": None},
        deadline="2030-12-01T09:00",
        checkpoint={"dir": "ckpt", "grace": "2m"},
    )
    sent = Submission(spec, "ana", "/work", {"PATH": "/bin", "HOME": "/ana", "EPOCHS": "1"}, "key")
    assert (spec.most_gpus, spec.gpu_counts, spec.batch_sizes) == (2, (1, 2), (8, 16))
    assert (sent.argv, sent.variables) == (("train", "--fast"), {"PATH": "/bin", "EPOCHS": "90", "HOME": "/ana"})
    plain = encode_submission(sent)
    assert plain["spec"].keys() == {"run", "gpus", "batch", "env", "deadline", "checkpoint"}, "what was left out stays out"
    again = stored(sent)
    assert shown_spec(again, "x") == shown_spec(sent, "x") and again.variables == sent.variables
    assert stored(again) == again, "also where the time zone has changed, a deadline is the same moment"


@pytest.mark.parametrize(
    ("said", "place"),
    [(None, "/work"), ("ckpt", "/work/ckpt"), ("s3://bucket/ckpt", "s3://bucket/ckpt"), ("file:///data", "file:///data")],
)
def test_checkpoints_are_below_the_working_folder_or_where_a_url_says(said: str | None, place: str) -> None:
    sent = Submission(Spec(run="train", checkpoint={"dir": said}), "ana", "/work", {})
    assert sent.checkpoint_dir == place == shown_spec(sent, "x")["checkpoint"]["dir"]
    assert stored(sent).checkpoint_dir == place
    early = json.loads(IN_A_HOME) | {"workdir": "/work", "checkpoint_dir": place}
    assert decode_submission(early).checkpoint_dir == place


def test_fields_of_another_version() -> None:
    plain = json.loads(IN_A_HOME)
    assert decode_submission({**plain, "colour": "red"}) == decode_submission(plain)
    today = encode_submission(decode_submission(plain))
    assert decode_submission({**today, "spec": {**today["spec"], "colour": "red"}}) == decode_submission(today)
    del plain["deadline_at"]
    assert decode_submission(plain).spec.deadline is None
    del plain["argv"]
    with pytest.raises(JournalError, match="record of job 'job-1' has no argv"):
        decode_submission(plain)


def test_a_stored_value_that_this_version_would_refuse_is_kept() -> None:
    """A home stays readable when limits change."""
    today = encode_submission(Submission(Spec(run="train"), "ana", "/", {}))
    today["spec"] |= {"weight": 1e9, "name": "12", "env": {"RANK": "3"}}
    assert decode_submission(today).spec.weight == 1e9


def test_a_variable_without_a_value_has_to_be_set_where_the_job_is_submitted() -> None:
    with pytest.raises(SpecError, match=r"env\.TOKEN"):
        to_job_spec(Submission(Spec(run="train", env={"TOKEN": None}), "ana", "/", {}), 0.0)


def test_the_user_that_a_job_runs_as_is_kept() -> None:
    """Without one, a submission is stored as before."""
    own = Submission(Spec(run="true"), "ana", "/", {})
    assert "uid" not in encode_submission(own) and decode_submission(encode_submission(own)).uid is None
    other = Submission(Spec(run="true"), "ana", "/", {}, uid=1000)
    assert decode_submission(json.loads(json.dumps(encode_submission(other)))) == other
