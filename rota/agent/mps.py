"""NVIDIA's Multi-Process Service: processes that share a GPU run on it at the same time instead of in turns.

The operator of the machine runs its control daemon, because an error of one client may end the others. Rota only gives each job
the folder of the daemon and a limit on its memory.
"""

import stat
from collections.abc import Sequence
from pathlib import Path

from rota.errors import OptionError

CONTROL = "control"
"""Name of the control daemon's socket in its folder, or of its pipe in older versions."""


def mps_folder(named: str | None, *, pretend: bool, on_nodes: bool = False) -> Path | None:
    """Return the folder of a control daemon. `on_nodes`: it is on the nodes of a cluster and cannot be checked from here. A node
    without a daemon runs jobs without MPS."""
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


def mps_environment(folder: Path | None, gpus: Sequence[int], gib: float | None) -> dict[str, str]:
    """Return the variables for a job on these GPUs. `gib` limits its memory on each, in GiB; None for no limit."""
    if folder is None:
        return {}
    found = {"CUDA_MPS_PIPE_DIRECTORY": str(folder)}
    if gib is not None:
        found["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = ",".join(f"{gpu}={round(gib * 1024)}M" for gpu in gpus)
    return found
