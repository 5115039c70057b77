"""A GPU has one scheduler: another process that wants it is refused, and the error names its holder."""

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from rota.agent.gpu_lock import hold_gpus, holder_of
from rota.errors import RotaError
from rota.wire.client import user_name

HOLDS = """
import sys
from pathlib import Path
from rota.agent.gpu_lock import hold_gpus
with hold_gpus(sys.argv[2:], Path(sys.argv[1])):
    print("has them", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def uuid() -> str:
    """No other test, on this machine or in another checkout, has it."""
    return f"GPU-test-{secrets.token_hex(8)}"


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
