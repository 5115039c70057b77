"""The environment of a job: its own variables, then Rota's. It has none of the scheduler's variables."""

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from rota.agent.constants import CPU_WEIGHT, CPUS, MEMORY_GIB
from rota.live.slurm_environment import slurm_sizes, slurm_variables
from rota.model.commands import Launch, Resize
from rota.wire.submission import Submission

PORTS = 20_000, 12_000
"""First port and number of ports at which the processes of a gang may meet. Jobs of two homes rarely get the same port."""
INTERFACE_NAMES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
"""Variables that set the network interface for libraries. A job's own value takes precedence."""


@dataclass(frozen=True, kw_only=True)
class GangPlace:
    """The place of a job's processes on one node, among all its nodes."""

    host: str
    """Name of the machine, for users."""
    node: str = ""
    """Name of the node in the cluster; empty if it is the only node."""
    gpus: Sequence[int]
    """GPUs of these processes, as CUDA numbers them there."""
    address: str = "127.0.0.1"
    """Address of the first node."""
    nodes: int = 1
    rank: int = 0
    """Rank of this node, from 0."""
    interface: str = ""
    """Network interface by which nodes reach each other; empty if libraries should find it."""


def job_environment(command: Launch, job: Submission, place: GangPlace, home_id: str) -> dict[str, str]:
    """Return the environment. `home_id` is unique to the home. The agent adds the id of the attempt."""
    first, count = PORTS
    interface = dict.fromkeys(INTERFACE_NAMES, place.interface) if place.nodes > 1 and place.interface else {}
    env = {
        "PYTHONUNBUFFERED": "1",
        **interface,
        **job.variables,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "MASTER_ADDR": place.address,
        "MASTER_PORT": str(first + (crc32(home_id.encode()) + command.job * 8 + command.attempt) % count),
        "NNODES": str(place.nodes),
        "NODE_RANK": str(place.rank),
        "ROTA_JOB_ID": str(command.job),
        "ROTA_JOB_KEY": f"{home_id}-{command.job}",
        "ROTA_JOB_NAME": job.spec.name or f"job-{command.job}",
        "ROTA_ATTEMPT": str(command.attempt),
        "ROTA_INCARNATION": str(command.attempt),  # its name until 0.1, for scripts that read it
        "ROTA_RESTARTS": str(command.attempt - 1),
        "ROTA_CHECKPOINT_DIR": job.checkpoint_dir,
        "ROTA_FROM_STEP": f"{command.from_step:g}",
        "ROTA_HOST": place.host,
        **({"ROTA_NODE": place.node} if place.node else {}),
        **(job.task.variables if job.task is not None else {}),
        **slurm_variables(command, job, place),
        **_limits(job, place),
        **{name: value for name, value in size_variables(command, job, place).items() if value is not None},
    }
    return env


def _limits(job: Submission, place: GangPlace) -> dict[str, str]:
    """Return the limits of CPUs and host memory, for the supervisor (`rota/agent/cgroups.py`) and for data loaders."""
    spec = job.spec
    part = min(spec.most_gpus, 1) * len(place.gpus)
    return {
        CPU_WEIGHT: str(max(round(100 * part), 1)),
        **({CPUS: f"{spec.cpus:g}"} if spec.cpus is not None else {}),
        **({MEMORY_GIB: f"{spec.memory:g}"} if spec.memory is not None else {}),
    }


def size_variables(command: Launch | Resize, job: Submission, place: GangPlace) -> dict[str, str | None]:
    """Return the variables with the size and place of a job; None for variables that must be removed, whatever the job's own
    values."""
    alone = len(command.gpus) == 1
    return {
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, place.gpus)),
        "ROTA_GPUS": str(len(command.gpus)),
        "ROTA_NODE_GPUS": str(len(place.gpus)),
        "ROTA_BATCH_SIZE": str(command.batch_size) if command.batch_size else None,
        "WORLD_SIZE": "1" if alone else None,
        "RANK": "0" if alone else None,
        "LOCAL_RANK": "0" if alone else None,
        **slurm_sizes(command, job, place),
    }
