"""NVIDIA's Multi-Process Service: processes that share a GPU run on it at the same time instead of in turns.

Whoever runs the machine decides on it and runs its control daemon: an error of one client may end the others. Rota only tells
jobs where the daemon is, and how much memory each may have.
"""

import stat
from collections.abc import Sequence
from pathlib import Path

from rota.errors import OptionError

CONTROL = "control"
"""Where the control daemon listens, in its folder: a socket, or a pipe in older versions."""


def mps_folder(named: str | None, *, pretend: bool, on_nodes: bool = False) -> Path | None:
    """Return the folder of a control daemon. `on_nodes`: it is on the nodes of a cluster and cannot be checked from here. A node
    that has none runs jobs without MPS."""
    if named is None:
        return None
    folder = Path(named).expanduser().absolute() if on_nodes else Path(named).expanduser().resolve()
    if pretend:
        raise OptionError("needs real GPUs.", field="--mps", value=named, hint="leave --mps or --pretend out")
    if on_nodes:
        return folder
    try:
        mode = (folder / CONTROL).stat().st_mode
        there = stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode)
    except OSError:
        there = False
    if not there:
        raise OptionError(
            f"no control daemon of MPS listens there: it has no socket {CONTROL!r}.",
            field="--mps",
            value=named,
            hint=f"CUDA_MPS_PIPE_DIRECTORY={folder} nvidia-cuda-mps-control -d",
        )
    return folder


def mps_environment(folder: Path | None, gpus: Sequence[int], gib: float) -> dict[str, str]:
    """Variables for a job on these GPUs that may take so much memory on each; 0: as much as there is."""
    if folder is None:
        return {}
    found = {"CUDA_MPS_PIPE_DIRECTORY": str(folder)}
    if gib:
        found["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = ",".join(f"{gpu}={round(gib * 1024)}M" for gpu in gpus)
    return found
