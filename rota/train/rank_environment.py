"""The rank, attempt and folders of a job, read from its environment."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from rota.agent.constants import RUN_FOLDER, URL_MARK
from rota.errors import OptionError


class JobEnvironment(NamedTuple):
    """The environment of a training script. The folders are None outside Rota."""

    run_folder: Path | None = None
    checkpoint_folder: Path | str | None = None
    """Checkpoints of this job only: a folder, or a URL in a store."""
    attempt: int = 1
    rank: int = 0
    world_size: int = 1
    nodes: int = 1
    batch_size: int = 0
    """Examples per step that Rota grants; 0 if the script decides."""
    knows_rank: bool = True
    """Whether the launcher has set RANK."""

    @property
    def under_rota(self) -> bool:
        return self.run_folder is not None


def read_rank_environment(variables: Mapping[str, str] | None = None) -> JobEnvironment:
    """Read the environment from these variables, by default those of the process."""
    found = os.environ if variables is None else variables
    run, saved = found.get(RUN_FOLDER, ""), found.get("ROTA_CHECKPOINT_DIR", "")
    job = found.get("ROTA_JOB_KEY") or found.get("ROTA_JOB_ID", "")
    world_size, rank = _number(found, "WORLD_SIZE", 1), _number(found, "RANK", 0)
    if rank >= max(world_size, 1):
        raise OptionError(
            f"is not a rank of {world_size} processes.", field="RANK", value=rank, hint="ranks count from 0; see WORLD_SIZE"
        )
    return JobEnvironment(
        run_folder=Path(run) if run else None,
        checkpoint_folder=place_for(saved, f"rota-{job}") if run and saved and job else None,
        attempt=_number(found, "ROTA_ATTEMPT", 1),
        rank=rank,
        knows_rank=bool(found.get("RANK")),
        world_size=max(world_size, 1),
        nodes=max(_number(found, "NNODES", 1), 1),
        batch_size=_number(found, "ROTA_BATCH_SIZE", 0),
    )


def check_rank(where: JobEnvironment) -> None:
    """Raise if processes on several nodes would all be rank 0 and overwrite each other's checkpoints."""
    if where.nodes > 1 and (not where.knows_rank or where.world_size < where.nodes):
        raise OptionError(
            f"is not set for each process on {where.nodes} nodes: they would overwrite each other's checkpoints.",
            field="RANK",
            value=where.rank if where.knows_rank else None,
            hint="start them with torchrun --nnodes $NNODES --node-rank $NODE_RANK, or set RANK and WORLD_SIZE over all nodes",
        )


def place_for(saved: str | os.PathLike[str], name: str = "") -> Path | str:
    """Return a folder as a path or a URL as it is; with `name`, the entry of this name in it."""
    text = os.fspath(saved)
    if URL_MARK not in text:
        return Path(text) / name
    return f"{text.rstrip('/')}/{name}" if name else text


def _number(variables: Mapping[str, str], name: str, missing: int) -> int:
    text = variables.get(name, "")
    if not text:
        return missing
    if not text.isascii() or not text.isdecimal():
        raise OptionError("is not a whole number.", field=name, value=text, hint=f"unset {name}, or let the launcher set it")
    return int(text)
