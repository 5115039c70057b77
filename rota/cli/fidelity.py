"""`rota fidelity`: simulate a live run again, and measure how far the simulation is off."""

import json
from typing import Annotated

import typer

from rota.cli import common_flags as flag
from rota.cli.output import say


def fidelity(
    homes: Annotated[
        list[str] | None, typer.Argument(metavar="[HOME]...", help="Homes of `rota up`, one for each policy to compare.")
    ] = None,
    output: flag.Output = "table",
) -> None:
    """Simulate the jobs of a live run again, and print how far the simulation is from what happened.

    The journal gives arrivals, the rate of each attempt, and how long starting, suspending and stopping took. The simulation
    makes its own scheduling decisions. The error is split by cause. With several homes, the result also shows whether the
    simulation ranks their policies as they really were.

    Example: rota fidelity ~/.rota
    """
    shaped = flag.shape(output)
    from rota.experiments.fidelity_report import measure_fidelity
    from rota.wire.address import home_folder

    found = measure_fidelity([home_folder(home) for home in homes or [""]])
    if shaped == "json":
        typer.echo(json.dumps(found.to_dict()))
    elif shaped == "csv":
        say(shaped, rows=[each.row() for each in found.policies])
    else:
        typer.echo(str(found))
