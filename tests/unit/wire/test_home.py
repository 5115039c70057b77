"""Facts about a home from outside: its owner, whether its scheduler runs, and how many of its jobs do."""

import fcntl
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.agent import disk
from rota.wire import home as home_module
from rota.wire.home import jobs_alive, not_running, other_owner, scheduler_runs
from tests.second_user import as_nobody


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user can enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def look(folder: Path) -> str:
    """What the second user finds."""
    code = "import sys; from pathlib import Path; from rota.wire.home import other_owner; print(other_owner(Path(sys.argv[1])))"
    ran = as_nobody("-c", code, str(folder))
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_files_have_the_names_that_supervisors_give_them() -> None:
    assert (home_module.RUN, home_module.SUPERVISOR_LOCK) == (disk.RUN, disk.SUPERVISOR_LOCK)


def test_a_scheduler_runs_while_its_lock_is_held(tmp_path: Path) -> None:
    assert not scheduler_runs(tmp_path)
    with (tmp_path / "daemon.lock").open("w") as lock:
        assert not scheduler_runs(tmp_path)
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert scheduler_runs(tmp_path)
    assert not scheduler_runs(tmp_path)


def test_jobs_that_run_without_their_scheduler_are_counted_once(tmp_path: Path) -> None:
    assert not_running(tmp_path) == f"No scheduler has been started in {tmp_path}."
    (tmp_path / "daemon.lock").touch()
    assert not_running(tmp_path) == f"The scheduler of {tmp_path} is not running."
    locks = []
    for place in ("1/1", "2/1", "2/2", "3/1"):
        folder = tmp_path / "run" / place
        folder.mkdir(parents=True)
        locks.append((folder / "supervisor.lock").open("w"))
    for lock, counted, words in zip(locks, (1, 2, 2, 3), ("1 of its jobs is", "2 of its jobs are", "2 of", "3 of"), strict=True):
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert jobs_alive(tmp_path) == counted
        assert words in not_running(tmp_path)
    for lock in locks:
        lock.close()
    assert jobs_alive(tmp_path) == 0


def test_a_home_of_another_user_is_told_by_its_owner(shared: Path) -> None:
    home = shared / "home"
    home.mkdir(mode=0o700)
    assert look(home) == f"{home} belongs to root and is not readable for you"
    assert look(home / "x") == f"{home / 'x'}: {home} belongs to root and is not readable for you"
    home.chmod(0o755)
    (home / "token").write_text("secret")
    (home / "token").chmod(0o600)
    assert look(home) == f"{home / 'token'} belongs to root and is not readable for you"
    (home / "token").chmod(0o644)
    assert look(home) == ""
    assert look(shared / "none" / "yet") == ""


def test_ones_own_home_is_nobody_elses(tmp_path: Path) -> None:
    (tmp_path / "token").touch(mode=0o000)
    assert other_owner(tmp_path) == "" == other_owner(tmp_path / "home")
