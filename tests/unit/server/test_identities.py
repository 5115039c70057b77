"""Who may use a scheduler, and as whom their jobs run."""

import os
import pwd
from pathlib import Path

import pytest

from rota.errors import ForbiddenError, InputError
from rota.server.identities import Identities, JobOwner
from rota.server.users_file import set_user
from rota.wire.actor import Actor, Role

TOKEN = "x" * 20
ME = pwd.getpwuid(os.geteuid()).pw_name
OTHER = next(each for each in pwd.getpwall() if each.pw_uid not in (0, os.geteuid()))
"""A Unix user of this machine who is not this one."""


def known(identities: Identities, uid: int) -> Actor:
    found = identities.by_uid(uid)
    assert found is not None
    return found


def test_the_owner_is_an_operator_by_token_and_by_socket(tmp_path: Path) -> None:
    identities = Identities(TOKEN, tmp_path)
    assert identities.by_token(TOKEN.encode()) == identities.by_uid(os.geteuid()) == identities.owner
    assert identities.owner.name == ME and identities.owner.is_operator


def test_a_scheduler_of_one_user_does_not_serve_another_unix_user(tmp_path: Path) -> None:
    assert Identities(TOKEN, tmp_path).by_uid(OTHER.pw_uid) is None


def test_with_all_users_a_unix_user_submits_jobs_that_run_as_them(tmp_path: Path) -> None:
    identities = Identities(TOKEN, tmp_path, all_users=True)
    actor = known(identities, OTHER.pw_uid)
    assert actor == Actor(OTHER.pw_name, Role.USER, OTHER.pw_uid, may_run_as_scheduler=False)
    assert identities.job_owner(actor, None) == JobOwner(OTHER.pw_name, OTHER.pw_uid)
    with pytest.raises(ForbiddenError, match=f"You are {OTHER.pw_name}, not {ME}"):
        identities.job_owner(actor, ME)


def test_a_role_of_the_file_counts_for_the_unix_user_of_that_name(tmp_path: Path) -> None:
    identities = Identities(TOKEN, tmp_path, all_users=True)
    set_user(tmp_path, OTHER.pw_name, Role.VIEWER, token=False)
    actor = known(identities, OTHER.pw_uid)
    assert actor.role is Role.VIEWER
    with pytest.raises(ForbiddenError, match="You may read, but change nothing"):
        identities.job_owner(actor, None)
    set_user(tmp_path, OTHER.pw_name, Role.OPERATOR, token=False)
    actor = known(identities, OTHER.pw_uid)
    assert actor.is_operator
    with pytest.raises(ForbiddenError, match=f"run as {ME}"):
        identities.job_owner(actor, ME)  # an operator is not root


def test_a_user_with_a_token_is_that_unix_user(tmp_path: Path) -> None:
    identities = Identities(TOKEN, tmp_path, all_users=True)
    token = set_user(tmp_path, OTHER.pw_name, Role.USER, token=True) or ""
    actor = identities.by_token(token.encode())
    assert actor is not None and identities.job_owner(actor, None) == JobOwner(OTHER.pw_name, OTHER.pw_uid)


def test_a_user_who_is_not_a_unix_user_cannot_submit_where_jobs_run_as_their_users(tmp_path: Path) -> None:
    token = set_user(tmp_path, "nosuchuser", Role.USER, token=True) or ""
    actor = Identities(TOKEN, tmp_path, all_users=True).by_token(token.encode())
    assert actor is not None
    with pytest.raises(InputError, match="is not a Unix user"):
        Identities(TOKEN, tmp_path, all_users=True).job_owner(actor, None)
    assert Identities(TOKEN, tmp_path).job_owner(actor, None) == JobOwner("nosuchuser", None)


@pytest.mark.parametrize("role", [Role.USER, Role.OPERATOR])
def test_where_jobs_run_as_their_users_only_the_owner_may_run_them_as_the_scheduler(tmp_path: Path, role: Role) -> None:
    """Also an operator without a Unix account on this machine, whose jobs would have nobody else to run as."""
    token = (set_user(tmp_path, "nosuchuser", role, token=True) or "").encode()
    found = [Identities(TOKEN, tmp_path, all_users=every).by_token(token) for every in (True, False)]
    assert [each is not None and each.may_run_as_scheduler for each in found] == [False, True]
    assert Identities(TOKEN, tmp_path, all_users=True).owner.may_run_as_scheduler


def test_the_owner_may_name_another_user(tmp_path: Path) -> None:
    alone = Identities(TOKEN, tmp_path)
    assert alone.job_owner(alone.owner, "leo") == JobOwner("leo", None)
    assert alone.job_owner(alone.owner, None) == JobOwner(ME, None)
    shared = Identities(TOKEN, tmp_path, all_users=True)
    assert shared.job_owner(shared.owner, OTHER.pw_name) == JobOwner(OTHER.pw_name, OTHER.pw_uid)


def test_actors_change_only_what_their_role_allows() -> None:
    viewer, user, operator = (Actor("ana", role) for role in Role)
    for actor, may in ((viewer, ()), (user, ("ana",)), (operator, ("ana", "leo"))):
        for owner in ("ana", "leo"):
            assert actor.owns(owner) == (owner in may)
            if owner not in may:
                with pytest.raises(ForbiddenError):
                    actor.check_owns(owner, "Job 1")
            else:
                actor.check_owns(owner, "Job 1")
    for actor in (viewer, user):
        with pytest.raises(ForbiddenError, match="Only an operator"):
            actor.check_operator()
    operator.check_operator()


def test_while_the_file_is_damaged_nobody_has_more_rights_than_it_gave(tmp_path: Path) -> None:
    told: list[str] = []
    identities = Identities(TOKEN, tmp_path, all_users=True, on_problem=told.append)
    set_user(tmp_path, OTHER.pw_name, Role.VIEWER, token=False)
    assert known(identities, OTHER.pw_uid).role is Role.VIEWER
    good = (tmp_path / "users.json").read_bytes()
    for damaged in (good[:-20], b"", b"[]", b'{"version": 1, "users": []}'):
        (tmp_path / "users.json").write_bytes(damaged)
        assert known(identities, OTHER.pw_uid).role is Role.VIEWER
        assert known(identities, os.geteuid()).is_operator
    assert "may only read" in told[0]
    (tmp_path / "users.json").write_bytes(good.replace(b"viewer", b"operator"))
    assert known(identities, OTHER.pw_uid).role is Role.OPERATOR
