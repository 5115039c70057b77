"""Finding processes, and killing only the right ones."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.agent.disk import try_lock, unlock, write_atomic
from rota.agent.outcome import signal_name, signal_number
from rota.agent.processes import ProcessIdentity, boot_s, end_all, holders, kill, living, members
from tests.waiting import alive, until


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "300"], env={"ROTA_LIFE": "test.life", "PATH": os.environ["PATH"]}) as process:
        until(lambda: Path(f"/proc/{process.pid}/environ").read_bytes().startswith(b"ROTA_LIFE"))
        yield process
        process.kill()


def test_life_is_compared_whole(sleeper: "subprocess.Popen[bytes]") -> None:
    assert [process.pid for process in members(ProcessIdentity("test.life", 0.0))] == [sleeper.pid]
    assert (
        members(ProcessIdentity("test.lif", 0.0)) == []
        and members(ProcessIdentity("est.life", 0.0)) == []
        and members(ProcessIdentity("", 0.0)) == []
    )
    assert members(ProcessIdentity("test.life", boot_s() + 5.0)) == [], "what started earlier is not looked at"


def test_ours_by_descent(sleeper: "subprocess.Popen[bytes]") -> None:
    assert sleeper.pid in {process.pid for process in members(ProcessIdentity("", 0.0, ancestor=os.getpid()))}


def test_a_name_may_hold_anything(tmp_path: Path) -> None:
    odd = tmp_path / "a) Z 1 (b"
    odd.symlink_to(sys.executable)
    with subprocess.Popen([str(odd), "-c", "import time; time.sleep(300)"]) as process:
        try:
            until(lambda: b") Z" in Path(f"/proc/{process.pid}/comm").read_bytes())
            (found,) = [other for other in living() if other.pid == process.pid]
            assert found.parent == os.getpid()
        finally:
            process.kill()


def test_a_number_used_again_is_spared(sleeper: "subprocess.Popen[bytes]") -> None:
    (found,) = members(ProcessIdentity("test.life", 0.0))
    kill(found._replace(start_s=found.start_s - 1.0))
    time.sleep(0.02)
    assert sleeper.poll() is None
    kill(found)
    assert sleeper.wait(30) == -9
    kill(found)


def test_what_does_not_go_is_named(tmp_path: Path) -> None:
    lock = try_lock(tmp_path / "lock")
    assert lock is not None
    # Held by this very process, which is never among those that are ended.
    assert "hidden from us" in end_all(ProcessIdentity("", 0.0), lock=tmp_path / "lock", seconds=0.0)
    unlock(lock)
    assert end_all(ProcessIdentity("", 0.0), lock=tmp_path / "lock", seconds=0.0) == ""


def test_holders_of_a_lock(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as file, subprocess.Popen(["sleep", "300"], pass_fds=[file.fileno()]) as process:
        try:
            assert [holder.pid for holder in holders(tmp_path / "lock")] == [process.pid]
        finally:
            process.kill()
    assert not alive(process.pid) and holders(tmp_path / "lock") == []


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    write_atomic(tmp_path, "file", b"old", durable=True)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").touch()
    with pytest.raises(OSError):
        write_atomic(tmp_path, "folder", b"new", durable=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_names_of_signals() -> None:
    assert [signal_number(name).name for name in ("SIGUSR2", "usr2", "TERM", "nonsense")] == [
        "SIGUSR2",
        "SIGUSR2",
        "SIGTERM",
        "SIGTERM",
    ]
    assert (signal_name(9), signal_name(40)) == ("SIGKILL", "signal 40")
