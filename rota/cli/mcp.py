"""`rota mcp`: serve a program that speaks the Model Context Protocol."""

from typing import Annotated

import typer

from rota.cli import common_flags as flag
from rota.errors import OptionError


def mcp(
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer only tools that change nothing.")] = False,
    max_jobs: Annotated[
        int | None,
        typer.Option(
            "--max-jobs",
            parser=flag.number("--max-jobs", whole=True),
            metavar="N",
            help="Maximum number of unfinished jobs of this server. Default: no limit.",
        ),
    ] = None,
    max_gpus: Annotated[
        float | None,
        typer.Option(
            "--max-gpus",
            parser=flag.number("--max-gpus", like="4"),
            metavar="N",
            help="Maximum number of GPUs of its unfinished jobs together. Default: no limit.",
        ),
    ] = None,
    max_gpu_hours: Annotated[
        float | None,
        typer.Option(
            "--max-gpu-hours",
            parser=flag.number("--max-gpu-hours", like="100"),
            metavar="N",
            help="Maximum GPU-hours of all jobs of your programs. Default: no limit.",
        ),
    ] = None,
    home: flag.Home = None,
) -> None:
    """Serve a program that speaks the Model Context Protocol, on standard input and output. Programs start this command.

    Its tools are the verbs of the commands: submit, jobs, show, why, logs, cancel and others. They act as you, with your role.

    Example: rota mcp --max-jobs 8 --max-gpus 4 --max-gpu-hours 100
    """
    for name, value in (("--max-jobs", max_jobs), ("--max-gpus", max_gpus), ("--max-gpu-hours", max_gpu_hours)):
        if value is not None and not 0 < value <= 1e9:
            raise OptionError("must be more than 0.", field=name, value=value, hint=f"{name} 8")
        if value is not None and read_only:
            raise OptionError("has no effect with --read-only.", field=name, value=value, hint="leave one of the two out")
    from rota.mcp.budget import BudgetLimits
    from rota.mcp.server import serve_stdio
    from rota.mcp.tools import Toolbox
    from rota.wire.client import connect

    limits = BudgetLimits(max_jobs, max_gpus, max_gpu_hours)
    serve_stdio(Toolbox(lambda: connect(home), read_only=read_only, limits=limits))
