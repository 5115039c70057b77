"""What a job sees in its environment: its own variables, then ours. Nothing of the scheduler's own."""

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

from rota.model.commands import Launch, Resize
from rota.wire.submission import Submission

PORTS = 20_000, 12_000
"""First port and how many: where the processes of a gang may meet. Jobs of two homes rarely get the same one."""
INTERFACE_NAMES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
"""Variables by which libraries are told the network interface. What a job sets itself stands."""


@dataclass(frozen=True, kw_only=True)
class GangPlace:
    """Where one part of a job is, among all of them."""

    host: str
    """The machine it runs on, for people."""
    node: str = ""
    """What the cluster calls that; empty: it is the only one."""
    gpus: Sequence[int]
    """Its GPUs, as CUDA numbers them there."""
    address: str = "127.0.0.1"
    """Where the first part can be reached."""
    nodes: int = 1
    rank: int = 0
    """Of this part, from 0."""
    interface: str = ""
    """The network interface by which nodes reach each other; empty: whatever a library finds."""


def job_environment(command: Launch, job: Submission, place: GangPlace, home_id: str, life: str) -> dict[str, str]:
    """`home_id`: a name that no other home has; `life`: one that no other attempt has."""
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
        "ROTA_LIFE": life,
        **{name: value for name, value in size_variables(command, place).items() if value is not None},
    }
    return env


def size_variables(command: Launch | Resize, place: GangPlace) -> dict[str, str | None]:
    """Those that say how large it is, and where; None: it has none such, whatever its own say."""
    alone = len(command.gpus) == 1
    return {
        "CUDA_VISIBLE_DEVICES": ",".join(map(str, place.gpus)),
        "ROTA_GPUS": str(len(command.gpus)),
        "ROTA_NODE_GPUS": str(len(place.gpus)),
        "ROTA_BATCH_SIZE": str(command.batch_size) if command.batch_size else None,
        "WORLD_SIZE": "1" if alone else None,
        "RANK": "0" if alone else None,
        "LOCAL_RANK": "0" if alone else None,
    }
