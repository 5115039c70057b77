"""Several users of one API: each changes their own jobs, and sees no more of the others than needed."""

import dataclasses
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rota.server import changes
from rota.server.users_file import set_user
from rota.wire.actor import Role
from tests.unit.server.asking import ask, submission
from tests.unit.server.standin import Served, serve
from tests.waiting import LONG_SECONDS, until

ROLES = {"ana": Role.USER, "leo": Role.USER, "eve": Role.VIEWER, "olga": Role.OPERATOR}


@dataclasses.dataclass(frozen=True)
class Team:
    served: Served
    tokens: dict[str, str]

    def ask(self, who: str, method: str, path: str, body: object = None) -> tuple[int, object]:
        status, found, _ = ask(self.served, method, f"/api/v1{path}", body, token=self.tokens[who])
        return status, found

    def submit(self, who: str, **body: object) -> tuple[int, dict[str, object]]:
        sent = {
            key: value for key, value in {**submission(name=f"{who}-train"), "user": None, **body}.items() if value is not None
        }
        status, found = self.ask(who, "POST", "/jobs", sent)
        assert isinstance(found, dict)
        return status, found


@pytest.fixture
def team(tmp_path: Path) -> Iterator[Team]:
    with serve(tmp_path) as served:
        yield Team(served, {name: set_user(tmp_path, name, role, token=True) or "" for name, role in ROLES.items()})


@pytest.fixture
def hiding(tmp_path: Path) -> Iterator[Team]:
    with serve(tmp_path, hide_names=True) as served:
        yield Team(served, {name: set_user(tmp_path, name, role, token=True) or "" for name, role in ROLES.items()})


def test_a_job_belongs_to_the_user_of_the_token(team: Team) -> None:
    status, row = team.submit("ana")
    assert (status, row["user"]) == (201, "ana")
    assert team.submit("leo", user="ana")[0] == 403
    assert team.submit("olga", user="ana")[1]["user"] == "ana"
    several = {"jobs": [submission()], "user": "ana", "workdir": "/"}
    assert team.ask("leo", "POST", "/submissions", several)[0] == 403


def test_users_change_only_their_own_jobs(team: Team) -> None:
    team.submit("ana")
    status, found = team.ask("leo", "POST", "/jobs/1/cancel")
    assert status == 403 and isinstance(found, dict)
    assert found["error"] == "Job 1 belongs to ana; you are leo." and found["hint"] == "ask ana or an operator"
    team.submit("leo")
    assert team.ask("leo", "POST", "/cancellations", {"jobs": [2, 1]})[0] == 403
    assert [row.phase for row in team.served.daemon.rows.values()] == ["queued", "queued"], "all or none"
    assert team.ask("ana", "POST", "/jobs/1/cancel")[0] == 200
    assert team.ask("olga", "POST", "/jobs/2/cancel")[0] == 200


def test_a_viewer_reads_and_changes_nothing(team: Team) -> None:
    team.submit("ana")
    assert team.ask("eve", "GET", "/jobs")[0] == 200 and team.ask("eve", "GET", "/nodes")[0] == 200
    for path, body in (
        ("/jobs", submission()),
        ("/jobs/1/cancel", None),
        ("/cancellations", {"jobs": []}),
        ("/policy", {"policy": "fifo"}),
    ):
        assert team.ask("eve", "POST", path, body)[0] == 403


def test_only_an_operator_sets_the_policy(team: Team) -> None:
    assert team.ask("ana", "POST", "/policy", {"policy": "fifo"})[0] == 403
    assert team.ask("olga", "POST", "/policy", {"policy": "fifo"})[0] == 200


def test_the_output_and_the_command_of_a_job_are_for_its_owner_and_operators(team: Team) -> None:
    team.submit("ana")
    team.served.daemon.write(1, "secret=1\n")
    for who, sees in (("ana", True), ("olga", True), ("leo", False), ("eve", False)):
        assert team.ask(who, "GET", "/jobs/1/logs")[0] == (200 if sees else 403)
        _, row = team.ask(who, "GET", "/jobs/1")
        assert isinstance(row, dict) and bool(row["command"]) == sees and row["name"] == "ana-train"
        _, rows = team.ask(who, "GET", "/jobs")
        assert isinstance(rows, list) and bool(rows[0]["command"]) == sees
        _, page = team.ask(who, "GET", "/page")
        assert isinstance(page, dict) and bool(page["jobs"][0]["command"]) == sees
        _, why = team.ask(who, "GET", "/jobs/1/why")
        assert isinstance(why, dict) and bool(why["job"]["command"]) == sees


def test_names_of_others_can_be_hidden(hiding: Team) -> None:
    hiding.submit("ana")
    hiding.submit("leo")
    _, rows = hiding.ask("leo", "GET", "/jobs")
    assert isinstance(rows, list) and [row["name"] for row in rows] == ["job-1", "leo-train"]
    assert hiding.ask("leo", "GET", "/jobs/ana-train")[0] == 404
    _, row = hiding.ask("leo", "GET", "/jobs/1")
    assert isinstance(row, dict) and row["name"] == "job-1"
    status, found = hiding.ask("leo", "GET", "/jobs/nothing")
    assert status == 404 and "ana-train" not in str(found)
    assert hiding.ask("olga", "GET", "/jobs/ana-train")[0] == 200


def test_me_says_who_one_is(team: Team) -> None:
    viewer = {"name": "eve", "role": "viewer", "uid": None, "tenants": [], "tenant": None}
    assert team.ask("eve", "GET", "/me") == (200, viewer)


def test_a_user_without_a_token_of_this_scheduler_is_refused(team: Team) -> None:
    assert ask(team.served, "GET", "/api/v1/jobs", token="y" * 43)[0] == 401


def test_only_an_operator_changes_machines(team: Team) -> None:
    window = {"places": ["n1"], "from_s": 3_000_000_000.0, "seconds": 60.0}
    for who in ("eve", "leo"):
        for path, body in (
            ("/nodes/n1/drain", {}),
            ("/nodes/n1/undrain", {}),
            ("/nodes/n1/remove", {}),
            ("/reservations", window),
            ("/reservations/1/cancel", None),
        ):
            assert team.ask(who, "POST", path, body)[0] == 403, path
        assert team.ask(who, "GET", "/reservations") == (200, [])
    status, row = team.ask("olga", "POST", "/nodes/n1/drain", {"gpu": 3, "reason": "fan", "seconds": 60})
    assert status == 200 and isinstance(row, dict) and (row["places"], row["by"], row["reason"]) == (["n1:3"], "olga", "fan")
    assert team.ask("olga", "POST", "/reservations", window)[0] == 201
    assert team.ask("olga", "POST", "/nodes/n1/remove", {})[0] == 409
    assert team.ask("olga", "POST", f"/reservations/{row['id']}/cancel")[0] == 200
    for path, body in (
        ("/nodes/n1/drain", {"gpu": -1}),
        ("/nodes/n1/drain", {"seconds": 0}),
        ("/nodes/n1/drain", {"seconds": 1, "until_s": 3e9}),
        ("/nodes/n1/drain", {"reason": "a\nb"}),
        ("/nodes/n1/drain", {"sudo": True}),
        ("/nodes/n1/remove", {"force": 1}),
        ("/reservations", {"places": []}),
        ("/reservations", {"places": ["n1"], "from_s": "soon"}),
    ):
        status, found = team.ask("olga", "POST", path, body)
        assert status == 400 and isinstance(found, dict) and found["hint"], (path, body, found)


def test_one_user_does_not_take_all_places_of_those_who_wait_for_changes(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MAX_WAITING", 4)
    path = "/changes?seen=1&timeout=10000"
    with ThreadPoolExecutor(4) as pool:
        first = [pool.submit(team.ask, "leo", "GET", path) for _ in range(2)]
        feed = team.served.server.config.app.state.changes
        until(lambda: feed._waiting == 2, "leo's clients wait")
        status, found = team.ask("leo", "GET", path)
        assert status == 503 and isinstance(found, dict) and "Too many" in found["error"]
        others = [pool.submit(team.ask, who, "GET", path) for who in ("ana", "olga")]
        until(lambda: feed._waiting == 4, "others wait too")
        team.submit("ana")
        assert [each.result(timeout=LONG_SECONDS)[0] for each in (*first, *others)] == [200] * 4
    assert not feed._waiting_of


def _requests(app: Any) -> list[tuple[str, str]]:
    """Return the method and a path, of leo's job or the node, of each route of the API."""
    values = {"key": "1", "name": "n1", "number": "1"}
    (router,) = (each.original_router for each in app.routes if hasattr(each, "original_router"))
    paths = {route.path: re.sub(r"\{(\w+)(:path)?\}", lambda found: values[found[1]], route.path) for route in router.routes}
    return [(method, paths[route.path]) for route in router.routes for method in sorted(route.methods - {"HEAD"})]


BODIES = {
    "/jobs": submission() | {"user": "leo"},
    "/submissions": {"jobs": [{"spec": {"run": "true"}}], "user": "leo", "workdir": "/"},
    "/cancellations": {"jobs": [1]},
    "/requests": {"verb": "hold", "jobs": [1]},
    "/policy": {"policy": "fifo"},
    "/reservations": {"places": ["n1"], "from_s": 3e9, "seconds": 60.0},
    "PATCH /jobs/1": {"name": "other"},
}
"""Bodies of requests that change something, which do so if an operator sends them."""


def test_every_request_that_changes_something_is_refused_to_those_who_may_not(team: Team) -> None:
    """A new route is checked too: it needs a body here, or the operator's request fails."""
    team.submit("leo")
    requests = _requests(team.served.server.config.app)
    changing = [each for each in requests if each[0] != "GET"]
    assert len(changing) > 15 and len(requests) > len(changing) + 10
    before = team.served.daemon.rows[1]
    for method, path in requests:
        assert ask(team.served, method, f"/api/v1{path}", token="y" * 43)[0] == 401, (method, path)
    for method, path in changing:
        body = BODIES.get(f"{method} {path}", BODIES.get(path, {}))
        for who in ("eve", "ana"):  # a viewer, and a user who does not own the job
            status, found = team.ask(who, method, path, body)
            assert status == 403, (who, method, path, found)
        assert team.served.daemon.rows == {1: before}, (method, path)
    for method, path in changing:
        status, found = team.ask("olga", method, path, BODIES.get(f"{method} {path}", BODIES.get(path, {})))
        assert status in (200, 201, 404, 409), (method, path, found)
