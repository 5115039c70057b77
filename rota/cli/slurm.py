"""`rota slurm`: print what Slurm's commands, options and variables are called in Rota."""

from typing import NamedTuple

import typer

from rota.cli import common_flags as flag
from rota.cli.output import say


class SlurmName(NamedTuple):
    """A name of Slurm and what does the same in Rota."""

    slurm: str
    rota: str
    note: str = ""


COMMANDS = (
    SlurmName("sbatch train.sh", "rota submit train.sh", "reads #SBATCH lines"),
    SlurmName("sbatch --wrap CMD", "rota submit -- CMD"),
    SlurmName("sbatch --array 0-9%2", "rota submit --array 0-9%2"),
    SlurmName("sbatch -d afterok:JOB", "rota submit --after JOB"),
    SlurmName("squeue", "rota jobs", "unfinished jobs; --watch shows changes"),
    SlurmName("squeue -u ana", "rota jobs --user ana"),
    SlurmName("squeue --start", "rota why JOB", "every reason to wait, and who is ahead"),
    SlurmName("scontrol show job JOB", "rota show JOB"),
    SlurmName("sacct", "rota jobs --all"),
    SlurmName("squeue --array", "rota jobs --tasks"),
    SlurmName("scancel JOB", "rota cancel JOB", "JOB_INDEX for a task of an array"),
    SlurmName("scontrol hold JOB", "rota hold JOB", "rota release JOB"),
    SlurmName("scontrol requeue JOB", "rota requeue JOB"),
    SlurmName("sinfo", "rota nodes"),
    SlurmName("sstat JOB", "rota show JOB"),
    SlurmName("tail -f slurm-JOB.out", "rota logs -f JOB", "one log, across suspensions"),
    SlurmName("sbatch --wait", "rota wait JOB"),
    SlurmName("slurmctld", "rota up"),
)
"""Commands."""

VARIABLES = (
    SlurmName("SLURM_JOB_ID", "ROTA_JOB_ID"),
    SlurmName("SLURM_JOB_NAME", "ROTA_JOB_NAME"),
    SlurmName("SLURM_ARRAY_JOB_ID", "ROTA_ARRAY_ID"),
    SlurmName("SLURM_ARRAY_TASK_ID", "ROTA_ARRAY_INDEX"),
    SlurmName("SLURM_ARRAY_TASK_COUNT", "ROTA_ARRAY_COUNT"),
    SlurmName("SLURM_RESTART_COUNT", "ROTA_RESTARTS"),
    SlurmName("SLURM_NNODES", "NNODES"),
    SlurmName("SLURM_NODEID", "NODE_RANK"),
    SlurmName("SLURM_PROCID", "NODE_RANK", "Rota starts one task on each node"),
    SlurmName("SLURM_GPUS", "ROTA_GPUS"),
    SlurmName("SLURM_GPUS_ON_NODE", "ROTA_NODE_GPUS"),
    SlurmName("SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"),
    SlurmName("SLURMD_NODENAME", "ROTA_NODE"),
    SlurmName("SLURM_LAUNCH_NODE_IPADDR", "MASTER_ADDR"),
)
"""Environment variables of a job."""


def slurm(output: flag.Output = "table") -> None:
    """Show what Slurm's commands and variables are called in Rota. `compat: slurm` in a spec sets both kinds of variables.

    Example: rota slurm
    """
    shaped = flag.shape(output)
    kinds = (("command", COMMANDS), ("variable", VARIABLES))
    rows = [{"kind": kind, **each._asdict()} for kind, names in kinds for each in names]
    if shaped in ("json", "csv"):
        say(shaped, rows=rows)
        return
    for kind, names in kinds:
        wide = max(len(each.slurm) for each in names)
        typer.echo(f"{'Slurm ' + kind:<{wide}}  Rota")
        for each in names:
            typer.echo(f"{each.slurm:<{wide}}  {each.rota:<22}  {each.note}".rstrip())
        typer.echo("")
    typer.echo("#SBATCH lines of a script: docs/slurm.md")
