"""`rota profile scaling`: how steps scale with GPUs and batch size, and how well the model of it fits."""

import dataclasses
import json
from typing import Annotated

import typer

from rota.cli import options as flag
from rota.cli.profile_figures import show_table
from rota.cli.show import say


def scaling(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Step times as Pollux or ElasticFlow publish them.")],
    output: flag.Output = "table",
) -> None:
    """How step times scale with GPUs and batch size: the model that a scheduler believes, and how far it is off.

    Example: rota profile scaling pollux_profiles
    """
    shaped = flag.shape(output)
    from rota.profiles.scaling import describe_scaling

    found = describe_scaling(folder)
    if shaped == "json":
        typer.echo(json.dumps([dataclasses.asdict(each) for each in found]))
        return
    if shaped == "csv":
        say(shaped, rows=[dataclasses.asdict(each) for each in found])
        return
    rows = [
        [
            x.model,
            x.accelerator,
            f"{x.points:,}",
            f"{x.typical_error:.1%}",
            f"{x.p90_error:.1%}",
            f"{x.most_local:,.0f}",
            "-" if x.noise_examples is None else f"{x.noise_examples:,.0f}",
            "-" if x.efficiency is None else f"{x.efficiency:.0%}",
        ]
        for x in found
    ]
    show_table(["MODEL", "TYPE", "POINTS", "TYPICAL", "P90", "LARGEST", "NOISE", "EFFICIENCY"], rows, left=2)
    typer.echo(
        "TYPICAL and P90: half and nine tenths of the modelled step times are within this of the measured ones. LARGEST:\n"
        "examples on a GPU. NOISE: gradient noise scale, in examples. EFFICIENCY: training per example at the largest batch\n"
        "size that was measured, over that at the smallest."
    )
