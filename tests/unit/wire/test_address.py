"""The address of a scheduler, and its token."""

import json
import os
import stat
from pathlib import Path

import pytest

from rota.errors import InputError, NotRunningError, UnreachableError
from rota.wire.address import home_folder, make_token, read_address, remove_address, write_address


def test_what_was_written_is_read(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"
    token = make_token(home)
    write_address(home, "http://127.0.0.1:7070", 42, "0.1.0")
    assert read_address(home) == ("http://127.0.0.1:7070", token)
    said = {"url": "http://127.0.0.1:7070", "pid": 42, "host": os.uname().nodename, "version": "0.1.0"}
    assert json.loads((home / "daemon.json").read_text()) == said
    write_address(home, "unix:/run/rota.sock", 43, "0.1.0")
    assert read_address(home).url == "unix:/run/rota.sock"
    assert sorted(path.name for path in home.iterdir()) == ["daemon.json", "token"]


def test_only_the_owner_can_read_any_of_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        home = tmp_path / "home"
        make_token(home)
        write_address(home, "http://127.0.0.1:7070", 1, "0")
    finally:
        os.umask(before)
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()} == {0o600}


def test_the_home_is_the_one_named_then_the_variable_then_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ROTA_HOME", raising=False)
    assert home_folder() == tmp_path / ".rota"
    monkeypatch.setenv("ROTA_HOME", str(tmp_path / "other"))
    assert home_folder() == tmp_path / "other"
    assert home_folder("~/third") == tmp_path / "third"


def test_a_token_is_made_once(tmp_path: Path) -> None:
    token = make_token(tmp_path)
    assert len(token) >= 43 and make_token(tmp_path) == token
    assert make_token(tmp_path / "other") != token


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o604, 0o620])
def test_a_token_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    make_token(tmp_path)
    (tmp_path / "token").chmod(mode)
    with pytest.raises(InputError, match="others can use this token") as problem:
        make_token(tmp_path)
    assert str(tmp_path / "token") in problem.value.hint


def test_a_token_that_is_a_link_or_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x" * 43)
    (tmp_path / "elsewhere").chmod(0o600)
    (tmp_path / "token").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="cannot be read"):
        make_token(tmp_path)
    (tmp_path / "token").unlink()
    (tmp_path / "token").mkdir()
    with pytest.raises(InputError, match="token"):
        make_token(tmp_path)


@pytest.mark.parametrize("text", ["", "\n", "short", "with a blank in it, but long enough", "ä" * 43])
def test_a_token_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(InputError, match="does not contain a token"):
        make_token(tmp_path)
    write_address(tmp_path, "http://127.0.0.1:7070", 1, "0")
    with pytest.raises(UnreachableError, match="does not contain a token"):
        read_address(tmp_path)


def test_where_nobody_started_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnreachableError) as problem:
        read_address(tmp_path)
    assert problem.value.message == f"No scheduler has been started in {tmp_path}."
    assert problem.value.hint == f"rota up --home {tmp_path}"
    monkeypatch.setenv("ROTA_HOME", str(tmp_path))
    with pytest.raises(UnreachableError) as problem:
        read_address()
    assert problem.value.hint == "rota up"


def test_what_a_killed_scheduler_left_behind_is_left_as_it_is(tmp_path: Path) -> None:
    make_token(tmp_path)
    write_address(tmp_path, "http://127.0.0.1:7070", 42, "0")
    (tmp_path / "daemon.lock").touch()
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(NotRunningError) as problem:
        read_address(tmp_path)
    assert problem.value.message == f"The scheduler of {tmp_path} is not running."
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"url": 7}', '{"url": "file:///etc"}', "\xff"])
def test_an_address_that_is_damaged(tmp_path: Path, text: str) -> None:
    make_token(tmp_path)
    (tmp_path / "daemon.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(UnreachableError, match=r"daemon\.json|cannot be read"):
        read_address(tmp_path)


def test_a_home_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        make_token(tmp_path / "file" / "home")


def test_an_address_is_taken_away_only_by_its_own_process(tmp_path: Path) -> None:
    remove_address(tmp_path)
    write_address(tmp_path, "http://127.0.0.1:7070", 42, "0")
    remove_address(tmp_path, pid=41)
    assert (tmp_path / "daemon.json").exists()
    remove_address(tmp_path, pid=42)
    assert not (tmp_path / "daemon.json").exists()
    (tmp_path / "daemon.json").write_text("{")
    remove_address(tmp_path)
    assert not (tmp_path / "daemon.json").exists()
