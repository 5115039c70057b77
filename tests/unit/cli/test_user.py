"""`rota user`: adding, listing, revoking and removing users."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Rota


def test_a_token_is_shown_once_and_listed_never(rota: Rota, tmp_path: Path) -> None:
    made = json.loads(rota("user", "add", "ana", "--role", "viewer", "--home", str(tmp_path), "-o", "json")[1])
    assert made["user"] == "ana" and made["role"] == "viewer" and len(made["token"]) > 40
    shown = rota("user", "list", "--home", str(tmp_path))[1]
    assert "ana" in shown and "viewer" in shown and made["token"] not in shown
    (row,) = json.loads(rota("user", "list", "--home", str(tmp_path), "-o", "json")[1])
    assert row["token"] is True and row["expires_at"] is None and row["changed_at"]


def test_a_role_is_given_without_a_token(rota: Rota, tmp_path: Path) -> None:
    assert rota("user", "add", "leo", "--role", "operator", "--no-token", "--home", str(tmp_path))[1] == "leo is operator.\n"
    (row,) = json.loads(rota("user", "list", "--home", str(tmp_path), "-o", "json")[1])
    assert row == {**row, "user": "leo", "role": "operator", "token": False}


def test_tokens_are_revoked_and_users_removed(rota: Rota, tmp_path: Path) -> None:
    rota("user", "add", "ana", "--expires-days", "90", "--home", str(tmp_path))
    (row,) = json.loads(rota("user", "list", "--home", str(tmp_path), "-o", "json")[1])
    assert row["expires_at"] is not None
    assert "no longer accepted" in rota("user", "revoke", "ana", "--home", str(tmp_path))[1]
    (row,) = json.loads(rota("user", "list", "--home", str(tmp_path), "-o", "json")[1])
    assert row["token"] is False and row["expires_at"] is None
    assert "Removed ana" in rota("user", "remove", "ana", "--home", str(tmp_path))[1]
    assert "Only the owner" in rota("user", "list", "--home", str(tmp_path))[1]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("add", "ana", "--role", "god"), "is not a role"),
        (("add", "ana", "--expires-days", "0"), "is not a number of days"),
        (("add", "ana", "--no-token", "--expires-days", "9"), "is not a number of days"),
        (("add", " "), "is not the name of a user"),
        (("revoke", "nobody-here"), "No user 'nobody-here'"),
        (("remove", "nobody-here"), "No user 'nobody-here'"),
    ],
)
def test_a_wrong_request_changes_nothing(rota: Rota, tmp_path: Path, words: tuple[str, ...], problem: str) -> None:
    code, _, err = rota("user", *words, "--home", str(tmp_path))
    assert code == 2 and problem in err and "Try: " in err
    assert json.loads(rota("user", "list", "--home", str(tmp_path), "-o", "json")[1] or "[]") == []
