"""`rota fidelity`: what really ran, simulated again."""

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
    """Simulate again what really ran, from what was submitted, and say how far the two are apart.

    Arrivals, how fast each attempt of a job trained, and what starting, suspending and leaving took come from the journal; the
    simulation decides for itself. The error is split by cause. With several homes, it also says whether their policies are ranked
    as they really were.

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
