"""`--listen unix:FILE` replaces only a socket that a scheduler of this user left behind."""

import os
import socket
import stat
from pathlib import Path

import pytest

from rota.errors import NotYours, OptionError
from rota.server.unix_socket import listening_on_file
from tests.stranger import STRANGER, root_only


def listen(path: Path) -> None:
    with listening_on_file(f"unix:{path}"):
        pass


def left_behind(path: Path) -> None:
    """A socket that no process has any more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as before:
        before.bind(str(path))


def test_a_socket_is_made_for_this_user_alone_and_removed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "rota.sock"
    before = os.umask(0)
    try:
        with listening_on_file(f"unix:{path}") as (listener, url):
            assert url == f"unix:{path}" and stat.S_IMODE(path.stat().st_mode) == 0o600
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.connect(str(path))
                listener.accept()[0].close()
    finally:
        os.umask(before)
    assert not path.exists()


def test_a_socket_that_a_killed_scheduler_left_is_taken(tmp_path: Path) -> None:
    left_behind(tmp_path / "rota.sock")
    listen(tmp_path / "rota.sock")


def test_a_path_may_be_longer_than_the_address_of_a_socket(tmp_path: Path) -> None:
    folder = tmp_path / ("f" * 120)
    folder.mkdir()
    listen(folder / "rota.sock")


def test_a_file_a_folder_and_a_link_stay(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "folder").mkdir()
    left_behind(tmp_path / "old.sock")
    (tmp_path / "link").symlink_to("old.sock")
    for name in ("file", "folder", "link"):
        with pytest.raises(OptionError, match="is not a socket and was not changed"):
            listen(tmp_path / name)
    assert (tmp_path / "file").read_text() == "precious" and (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET])
def test_a_socket_on_which_a_process_answers_stays(tmp_path: Path, kind: socket.SocketKind) -> None:
    path = tmp_path / "rota.sock"
    with socket.socket(socket.AF_UNIX, kind) as other:
        other.bind(str(path))
        if kind != socket.SOCK_DGRAM:
            other.listen(0)
        for _ in range(3):  # also when its queue is full
            with pytest.raises(OptionError, match="a process that is running"):
                listen(path)
        assert path.exists()


@root_only
def test_a_socket_of_another_user_stays(tmp_path: Path) -> None:
    left_behind(tmp_path / "rota.sock")
    os.chown(tmp_path / "rota.sock", STRANGER, STRANGER)
    with pytest.raises(OptionError, match="a socket of another user"):
        listen(tmp_path / "rota.sock")
    assert (tmp_path / "rota.sock").exists()


def test_a_folder_that_others_can_write_is_refused_unless_it_is_sticky(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(NotYours, match="other users can write here"):
        listen(tmp_path / "open" / "rota.sock")
    (tmp_path / "open").chmod(0o1777)
    listen(tmp_path / "open" / "rota.sock")


def test_what_took_its_place_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "rota.sock"
    with listening_on_file(f"unix:{path}"):
        path.unlink()
        path.write_text("another")
    assert path.read_text() == "another"


@pytest.mark.parametrize("text", ["unix:", "unix:/", "unix:/absent-folder/rota.sock"])
def test_a_path_that_cannot_be_is_told(text: str) -> None:
    with pytest.raises(OptionError, match="--listen"), listening_on_file(text):
        pass
