"""`rota profile scaling`: fit the model of step times over GPUs and batch sizes, and show its error."""

import dataclasses
import json
from typing import Annotated

import typer

from rota.cli import common_flags as flag
from rota.cli.output import say
from rota.cli.profile_figures import show_table


def scaling(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Folder of step times in Pollux's or ElasticFlow's format.")],
    output: flag.Output = "table",
) -> None:
    """Show how step times scale with GPUs and batch size: the model that a scheduler uses, and its error.

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
            *("-" if part is None else f"{part:.1%}" for part in (x.mean_error, x.p90_error)),
            f"{x.most_local:,.0f}",
            "-" if x.noise_examples is None else f"{x.noise_examples:,.0f}",
            "-" if x.efficiency is None else f"{x.efficiency:.0%}",
        ]
        for x in found
    ]
    show_table(["MODEL", "TYPE", "POINTS", "ERROR", "P90", "LOCAL", "NOISE", "EFFICIENCY"], rows, left=2)
    typer.echo(
        "ERROR: mean error of the fitted step times; nine tenths are within P90; -: too few points to fit.\n"
        "LOCAL: maximum examples on a GPU. NOISE: gradient noise scale, in examples.\n"
        "EFFICIENCY: training per example at the largest batch size measured, over the smallest."
    )
