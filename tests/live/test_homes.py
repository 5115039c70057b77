"""Homes that `rota up` refuses, because other users can change them, or have changed them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.harness import site, until
from tests.stranger import as_stranger, root_only

pytestmark = pytest.mark.slow


def up(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """`rota up` that is to end by itself."""
    command = [sys.executable, "-m", "rota", "up", "--home", str(home), "--pretend", "1xV100", "--listen", "127.0.0.1:0", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def used(public: Path) -> Path:
    """A home in which a scheduler has run."""
    with site(public, pretend="1xV100") as place:
        place.down()
    place.home.chmod(0o755)
    return place.home


@pytest.mark.parametrize("more", [[], ["--detach"], ["--systemd", "unit"]])
def test_a_home_that_others_can_write_is_refused(tmp_path: Path, more: list[str]) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o777)
    ended = up(home, *more)
    assert ended.returncode == 2 and f"{home} — other users can write here (mode 777)." in ended.stderr
    assert f"Try: chmod go-w {home}" in ended.stderr
    assert not list(home.iterdir()), "nothing is written there"


@root_only
def test_a_home_in_which_another_user_changed_things_is_refused(used: Path, tmp_path: Path) -> None:
    used.chmod(0o777)
    loot = tmp_path / "loot"
    loot.mkdir()

    def change() -> None:
        (used / "logs").rename(used / "logs.old")
        (used / "logs").symlink_to(loot)
        (used / "journal.sqlite").rename(used / "journal.old")
        (used / "journal.sqlite").write_bytes(b"")
        (used / "token").rename(used / "token.old")

    assert as_stranger(change) == 0
    ended = up(used)
    assert ended.returncode == 2 and f"Try: chmod go-w {used}" in ended.stderr
    used.chmod(0o755)
    ended = up(used)
    assert ended.returncode == 2 and "journal.sqlite — belongs to user nobody" in ended.stderr
    (used / "journal.old").replace(used / "journal.sqlite")
    ended = up(used)
    assert ended.returncode == 2 and "logs — is a link that user nobody made" in ended.stderr
    assert not list(loot.iterdir())


@root_only
def test_clients_do_not_go_where_another_user_sends_them(used: Path) -> None:
    """The token would go there."""
    used.chmod(0o777)
    assert as_stranger(lambda: (used / "daemon.json").write_text('{"url": "http://127.0.0.1:1", "pid": 1}')) == 0
    asked = [sys.executable, "-m", "rota", "jobs", "--home", str(used)]
    for mode, problem in ((0o777, "other users can write here"), (0o755, "daemon.json — belongs to user nobody")):
        used.chmod(mode)
        (used / "daemon.lock").unlink(missing_ok=True)  # else a client removes the address of a scheduler that has ended
        ended = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 2 and problem in ended.stderr


def test_listening_on_a_file_leaves_that_file_there(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    command = [sys.executable, "-m", "rota", "up", "--home", str(tmp_path / "home"), "--pretend", "1xV100", "--listen"]
    ended = subprocess.run(
        [*command, f"unix:{tmp_path / 'thesis.tex'}"], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 2 and "is not a socket and was not changed" in ended.stderr
    assert (tmp_path / "thesis.tex").read_text() == "precious"


def test_a_home_behind_a_link_of_ones_own_works(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    with site(tmp_path, pretend="1xV100", home=tmp_path / "link" / "home") as place:
        job = place.client().submit(run="true").id
        until(lambda: place.rows()[job].phase == "finished", "its job ends")
    assert os.path.samestat((tmp_path / "data" / "home").stat(), place.home.stat())


def test_doctor_tells_of_a_home_that_others_can_write_and_of_a_copy(used: Path, tmp_path: Path) -> None:
    subprocess.run(["cp", "-a", used, tmp_path / "copy"], check=True)
    (tmp_path / "copy").chmod(0o777)
    asked = [sys.executable, "-m", "rota", "doctor", "--home", str(tmp_path / "copy"), "-o", "json"]
    ended = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False)
    rows = {row["check"]: row for row in json.loads(ended.stdout)}
    assert rows["home"]["state"] == "fail" and rows["home"]["next"].startswith(f"chmod go-w {tmp_path / 'copy'}")
    assert rows["copy"]["state"] == "warn" and f"is a copy of {used}" in rows["copy"]["found"]
