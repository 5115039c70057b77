"""The file of users: roles, hashed tokens, and what happens when it is damaged."""

import json
import threading
from pathlib import Path

import pytest

from rota.errors import InputError, NotYours, UnknownNameError
from rota.server.users_file import USERS_FILE, UsersFile, read_users, remove_user, revoke_token, set_user
from rota.wire.actor import Role


def test_a_token_is_stored_only_as_a_hash(tmp_path: Path) -> None:
    token = set_user(tmp_path, "ana", Role.USER, token=True)
    assert token is not None and len(token) >= 40
    text = (tmp_path / USERS_FILE).read_text()
    assert token not in text and len(json.loads(text)["users"]["ana"]["token_sha256"]) == 64
    assert (tmp_path / USERS_FILE).stat().st_mode & 0o777 == 0o600


def test_a_new_token_replaces_the_last(tmp_path: Path) -> None:
    users = UsersFile(tmp_path)
    first, second = (set_user(tmp_path, "ana", Role.USER, token=True) for _ in range(2))
    assert first is not None and second is not None
    assert users.by_token(first) is None and users.by_token(second) == users.by_name("ana") is not None


def test_a_change_is_seen_without_a_restart(tmp_path: Path) -> None:
    users = UsersFile(tmp_path)
    assert users.by_name("ana") is None
    token = set_user(tmp_path, "ana", Role.VIEWER, token=True) or ""
    found = users.by_token(token)
    assert found is not None and found.role is Role.VIEWER
    set_user(tmp_path, "ana", Role.OPERATOR, token=False)
    found = users.by_token(token)
    assert found is not None and found.role is Role.OPERATOR, "a new role keeps the token"
    revoke_token(tmp_path, "ana")
    assert users.by_token(token) is None and users.by_name("ana") is not None
    remove_user(tmp_path, "ana")
    assert users.by_name("ana") is None


def test_an_expired_token_is_not_accepted(tmp_path: Path) -> None:
    token = set_user(tmp_path, "ana", Role.USER, token=True, expires_days=1e-9) or ""
    assert UsersFile(tmp_path).by_token(token) is None
    token = set_user(tmp_path, "ana", Role.USER, token=True, expires_days=1) or ""
    assert UsersFile(tmp_path).by_token(token) is not None


@pytest.mark.parametrize("name", ["", " ", " ana", "a\x1bb", "a\nb", "x" * 101])
def test_a_name_that_is_not_one_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="is not the name of a user"):
        set_user(tmp_path, name, Role.USER, token=True)
    assert not (tmp_path / USERS_FILE).exists()


def test_an_unknown_user_is_named_with_the_closest(tmp_path: Path) -> None:
    set_user(tmp_path, "ana", Role.USER, token=False)
    for change in (revoke_token, remove_user):
        with pytest.raises(UnknownNameError, match="Closest: ana"):
            change(tmp_path, "anna")


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"version": 2, "users": {}}', '{"version": 1, "users": {"ana": {"role": "god"}}}']
)
def test_a_damaged_file_lets_nobody_in_and_says_so_once(tmp_path: Path, text: str) -> None:
    token = set_user(tmp_path, "ana", Role.OPERATOR, token=True) or ""
    problems: list[str] = []
    users = UsersFile(tmp_path, problems.append)
    assert users.by_token(token) is not None
    (tmp_path / USERS_FILE).write_text(text)
    assert users.by_token(token) is None and users.by_token(token) is None
    assert len(problems) == 1 and USERS_FILE in problems[0]
    with pytest.raises(InputError):
        read_users(tmp_path)
    with pytest.raises(InputError):
        set_user(tmp_path, "leo", Role.USER, token=True)
    assert (tmp_path / USERS_FILE).read_text() == text, "a damaged file is left as it is"


def test_a_file_that_others_can_write_is_refused(tmp_path: Path) -> None:
    token = set_user(tmp_path, "ana", Role.OPERATOR, token=True) or ""
    (tmp_path / USERS_FILE).chmod(0o606)
    with pytest.raises(NotYours):
        read_users(tmp_path)
    assert UsersFile(tmp_path).by_token(token) is None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    token = set_user(elsewhere, "ana", Role.OPERATOR, token=True) or ""
    (tmp_path / USERS_FILE).symlink_to(elsewhere / USERS_FILE)
    assert UsersFile(tmp_path).by_token(token) is None


def test_changes_at_the_same_time_all_count(tmp_path: Path) -> None:
    names = [f"user{number}" for number in range(12)]
    threads = [threading.Thread(target=set_user, args=(tmp_path, name, Role.USER), kwargs={"token": True}) for name in names]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(read_users(tmp_path)) == sorted(names)
    assert not [each for each in tmp_path.iterdir() if each.name.endswith(".new")]
