"""MPS: which folder is used, and which variables jobs get."""

import os
import socket
from pathlib import Path

import pytest

from rota.agent.mps import mps_environment, mps_folder
from rota.errors import OptionError


def test_the_folder_of_a_control_daemon(tmp_path: Path) -> None:
    assert mps_folder(None, pretend=True) is None
    assert mps_folder("/run/of-each-node", pretend=False, on_nodes=True) == Path("/run/of-each-node")
    with pytest.raises(OptionError, match="no control daemon") as problem:
        mps_folder(str(tmp_path), pretend=False)
    assert problem.value.hint == f"CUDA_MPS_PIPE_DIRECTORY={tmp_path} nvidia-cuda-mps-control -d"
    (tmp_path / "control").write_text("a plain file is no socket")
    with pytest.raises(OptionError, match="no control daemon"):
        mps_folder(str(tmp_path), pretend=False)
    (tmp_path / "control").unlink()
    os.mkfifo(tmp_path / "control")
    assert mps_folder(str(tmp_path), pretend=False) == tmp_path
    (tmp_path / "control").unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "control"))
    assert mps_folder(str(tmp_path), pretend=False) == tmp_path
    with pytest.raises(OptionError, match="needs real GPUs"):
        mps_folder(str(tmp_path), pretend=True)


def test_what_a_job_is_told(tmp_path: Path) -> None:
    assert mps_environment(None, [0], 12.0) == {}
    assert mps_environment(tmp_path, [0], None) == {"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}
    limited = mps_environment(tmp_path, [2, 3], 1.5)
    assert limited["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "2=1536M,3=1536M"
