"""Variables of Slurm for a job with `compat: slurm`. Rota starts one task on each node of a job."""

from typing import TYPE_CHECKING

from rota.model.commands import Launch, Resize
from rota.wire.submission import Submission

if TYPE_CHECKING:
    from rota.live.job_environment import GangPlace

SLURM = "slurm"
"""Value of a spec's `compat`."""


def slurm_variables(command: Launch, job: Submission, place: "GangPlace") -> dict[str, str]:
    """Return the variables with the job and the place of its tasks; empty if the job does not ask for them."""
    if job.spec.compat != SLURM:
        return {}
    nodes, number = str(place.nodes), str(command.job)
    return {
        "SLURM_JOB_ID": number,
        "SLURM_JOBID": number,
        "SLURM_JOB_NAME": job.spec.name or f"job-{number}",
        "SLURM_JOB_USER": job.user,
        **({"SLURM_JOB_ACCOUNT": job.spec.tenant} if job.spec.tenant else {}),
        "SLURM_SUBMIT_DIR": job.workdir,
        "SLURM_RESTART_COUNT": str(command.attempt - 1),
        "SLURM_NNODES": nodes,
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_NTASKS": nodes,
        "SLURM_NPROCS": nodes,
        "SLURM_TASKS_PER_NODE": "1" if place.nodes == 1 else f"1(x{nodes})",
        "SLURM_NODEID": str(place.rank),
        "SLURM_PROCID": str(place.rank),
        "SLURM_LOCALID": "0",
        "SLURMD_NODENAME": place.node or place.host,
        "SLURM_LAUNCH_NODE_IPADDR": place.address,
        **(job.task.slurm_variables if job.task is not None else {}),
    }


def slurm_sizes(command: Launch | Resize, job: Submission, place: "GangPlace") -> dict[str, str]:
    """Return the variables that change with the GPUs of a job; empty if the job does not ask for them."""
    if job.spec.compat != SLURM:
        return {}
    return {
        "SLURM_GPUS": str(len(command.gpus)),
        "SLURM_GPUS_ON_NODE": str(len(place.gpus)),
        "SLURM_JOB_GPUS": ",".join(map(str, place.gpus)),
    }
