"""Requests about jobs over HTTP, and through the Python client."""

from pathlib import Path

import pytest

from rota.errors import ConflictError, InputError, RotaError
from rota.wire.client import Client
from tests.unit.server.standin import serve


def test_each_verb_has_a_route_and_a_method(tmp_path: Path) -> None:
    with serve(tmp_path) as made:
        client = Client(made.url, made.token)
        job = client.submit("x", name="resnet")
        assert job.hold().reason == "HELD" and job.release().reason == "AWAITING_DECISION"
        made.daemon.run(1)
        with pytest.raises(ConflictError, match="running"):
            client.hold(1)
        assert job.suspend().phase == "parked" and job.resume().reason == "AWAITING_DECISION"
        made.daemon.end(1)
        assert job.requeue().id == 2
        assert client.cancel(2).ended


def test_several_jobs_by_number_name_or_pattern(tmp_path: Path) -> None:
    with serve(tmp_path) as made:
        client = Client(made.url, made.token)
        for name in ("a-1", "a-2", "b"):
            client.submit("x", name=name)
        assert [each.requested for each in client.request("hold", [1, "b"])] == [1, 3]
        found = client.request("release", matching={"name": "a-*"})
        assert [(each.requested, each.changed) for each in found] == [(1, True), (2, False)]
        assert client.request("cancel", matching={"phase": "running"}) == []


@pytest.mark.parametrize(
    "body",
    [
        {"verb": "hold"},
        {"verb": "hold", "jobs": [1], "matching": {"user": "ana"}},
        {"verb": "halt", "jobs": [1]},
        {"verb": "hold", "jobs": [1], "lose_work": "yes"},
        {"verb": "hold", "matching": {"colour": "red"}},
        {"verb": "requeue", "matching": {"user": "ana"}},
        {"verb": "hold", "jobs": [True]},
        {"jobs": [1]},
    ],
)
def test_a_wrong_body_is_refused_with_its_field(tmp_path: Path, body: dict[str, object]) -> None:
    with serve(tmp_path) as made:
        client = Client(made.url, made.token)
        client.submit("x")
        with pytest.raises(InputError) as refused:
            client._transport.ask("POST", "/requests", body=body)
        assert refused.value.hint and made.daemon.rows[1].reason == "AWAITING_DECISION"


def test_the_body_of_a_verb_may_be_left_out_but_not_be_wrong(tmp_path: Path) -> None:
    with serve(tmp_path) as made:
        client = Client(made.url, made.token)
        client.submit("x")
        assert client._transport.ask("POST", "/jobs/1/hold")["reason"] == "HELD"
        with pytest.raises(RotaError, match="unknown field"):
            client._transport.ask("POST", "/jobs/1/release", body={"force": True})


def test_values_are_changed_with_patch(tmp_path: Path) -> None:
    with serve(tmp_path) as made:
        client = Client(made.url, made.token)
        job = client.submit("x", name="resnet")
        assert job.change(priority=-5, max_run_time=None).priority == -5
        assert client.change("resnet", weight=3).weight == 3.0
        for wrong in ({}, {"priority": 1001}, {"weight": None}, {"gpus": 2}, {"max_run_time": "soon"}, {"deadline": 5}):
            with pytest.raises(InputError):
                client.change(1, **wrong)
        made.daemon.end(1)
        with pytest.raises(ConflictError, match="ended"):
            job.change(priority=1)
