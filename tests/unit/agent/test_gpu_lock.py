"""A GPU has one scheduler: another process that wants it is refused, and the error names its holder."""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.agent.gpu_lock import LOCK, ROOT_LOCKS, hold_gpus, holder_of
from rota.errors import RotaError
from rota.wire.client import user_name
from tests.stranger import STRANGER, as_stranger, root_only

HOLDS = """
import sys
from pathlib import Path
from rota.agent.gpu_lock import hold_gpus
with hold_gpus(sys.argv[2:], Path(sys.argv[1])):
    print("has them", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def uuid() -> Iterator[str]:
    """No other test, on this machine or in another checkout, has it."""
    made = f"GPU-test-{secrets.token_hex(8)}"
    yield made
    for left in ROOT_LOCKS.glob(f"{made}*"):
        left.unlink()


def test_two_processes_never_have_the_same_gpu(uuid: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDS, "/home/ana/.rota", uuid, f"{uuid}-2"]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdin is not None and other.stdout is not None
    assert other.stdout.readline() == "has them\n"
    try:
        with pytest.raises(RotaError) as problem, hold_gpus([f"{uuid}-3", uuid], tmp_path):
            pass
        whose = f"process {other.pid} of {user_name()}, home /home/ana/.rota"
        assert problem.value.message == f"GPU {uuid} is scheduled already, by {whose}."
        with hold_gpus([f"{uuid}-3"], Path("/srv/rota")):  # what was taken before the refusal was given back
            assert holder_of(f"{uuid}-3") == (os.getpid(), "/srv/rota")
    finally:
        other.stdin.close()
        other.stdout.close()
        other.wait(60)
    with hold_gpus([uuid, f"{uuid}-2"], tmp_path):  # it went with the process
        pass
    assert holder_of(uuid) is None


def test_a_home_with_a_long_name_is_cut_off_and_the_lock_holds(uuid: str, tmp_path: Path) -> None:
    home = Path("/" + "long/" * 60)
    with hold_gpus([uuid], home):
        holder = holder_of(uuid)
        assert holder is not None and holder.pid == os.getpid() and str(home).startswith(holder.home)
        with pytest.raises(RotaError, match="is scheduled already"), hold_gpus([uuid], tmp_path):
            pass


def test_pretend_gpus_need_no_lock(tmp_path: Path) -> None:
    with hold_gpus([], tmp_path), hold_gpus([], tmp_path):
        pass


TAKES = """
import os, socket, sys
os.setgid(int(sys.argv[1])), os.setuid(int(sys.argv[1]))
box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
box.bind(b"\\0" + sys.argv[2].encode())
print("has it", flush=True)
sys.stdin.read()
"""


@root_only
def test_another_user_does_not_keep_root_from_its_gpus(uuid: str, tmp_path: Path) -> None:
    """Any user can take the name, and hold it for ever."""
    command = [sys.executable, "-c", TAKES, str(STRANGER), LOCK + uuid]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == "has it\n"
        told: list[str] = []
        with hold_gpus([uuid], tmp_path, told.append):
            assert len(told) == 1 and uuid in told[0] and "nobody" in told[0]
            with pytest.raises(RotaError, match="is scheduled already"), hold_gpus([uuid], tmp_path):
                pass
        other.stdin.close()


@root_only
def test_a_user_does_not_get_a_gpu_of_root_nor_change_its_locks(uuid: str, tmp_path: Path) -> None:
    def take() -> None:
        with hold_gpus([uuid], Path("/nonexistent")):
            pass

    assert as_stranger(take) == 0
    with hold_gpus([uuid], tmp_path):
        assert as_stranger(take) != 0
        assert as_stranger(lambda: (ROOT_LOCKS / uuid).unlink()) != 0
        assert as_stranger(lambda: (ROOT_LOCKS / uuid).read_text()) != 0


@root_only
def test_the_name_alone_of_a_scheduler_of_root_counts(uuid: str, tmp_path: Path) -> None:
    """One of an earlier version locks no file."""
    command = [sys.executable, "-c", TAKES, "0", LOCK + uuid]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == "has it\n"
        with pytest.raises(RotaError, match="is scheduled already"), hold_gpus([uuid], tmp_path):
            pass
        other.stdin.close()
