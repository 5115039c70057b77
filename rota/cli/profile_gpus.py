"""`rota profile variability` and `rota profile classes`: how unequal GPUs of one type are, and which profiles feel it alike."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Annotated

import typer

from rota.cli import common_flags as flag
from rota.cli import setup
from rota.cli.output import say
from rota.cli.profile_figures import show_table

MOST_SHOWN = 6
"""Bins and slow GPUs of a class that a line has room for."""


def variability(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A folder with profiles.json, a file of runs, or a file of scores.")
    ],
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="For the GPUs of this cluster; left out: as many as the file has.")
    ] = None,
    seed: setup.Seed = 0,
    median: Annotated[bool, typer.Option("--median", help="A score is the median of a real GPU's runs, not one run.")] = False,
    output: flag.Output = "table",
) -> None:
    """How unequal GPUs of one type are, by application class.

    Example: rota profile variability pal_variability --cluster "16x(4xV100)" --median
    """
    shaped = flag.shape(output)
    from rota.compose.cluster_yaml import open_cluster
    from rota.profiles.variability_files import OUTLIER, describe_variability

    found = describe_variability(path, open_cluster(cluster).cluster if cluster is not None else None, seed, not median)
    if shaped == "json":
        typer.echo(json.dumps(dataclasses.asdict(found)))
        return
    if shaped == "csv":
        say(
            shaped,
            rows=[dataclasses.asdict(line) | {"bins": len(line.bins), "outliers": len(line.outliers)} for line in found.classes],
        )
        return
    rows = []
    for x in found.classes:
        spread = "-" if x.spread is None else f"{x.spread:.2%}"
        rows.append([x.name, f"{x.gpus:,}", *(f"{v:.3f}" for v in (x.least, x.median, x.most)), spread, f"{len(x.bins)}"])
    show_table(["CLASS", "GPUS", "MIN", "MEDIAN", "MAX", "SPREAD", "BINS"], rows)
    for x in found.classes:
        typer.echo(f"bins of {x.name}: {_few([f'{value:.3f} x{count:,}' for value, count in x.bins])}")
        if x.outliers:
            typer.echo(f"GPUs of {x.name} beyond {OUTLIER:g}: {_few([f'{gpu} ({score:.2f})' for gpu, score in x.outliers])}")
    how = {None: "As the file has them", True: "A run for every GPU", False: "The median of a real GPU's runs for every GPU"}
    drawn = f", drawn with seed {found.seed}" if found.seed is not None else ""
    typer.echo(
        f"{how[found.sampled]}{drawn}. A score is a factor on the time of a step: 1 is the median,\n"
        "more is slower. SPREAD: how far a score may be off; -: unknown. Bins: level x GPUs."
    )


def classes(
    path: Annotated[str, typer.Argument(metavar="FILE", help="A CSV file with the columns profile, compute and dram.")],
    output: flag.Output = "table",
) -> None:
    """Application classes: profiles that use a GPU alike, the most compute-bound first.

    Example: rota profile classes utilisation.csv
    """
    shaped = flag.shape(output)
    from rota.profiles.class_features import describe_classes

    found = describe_classes(path)
    if shaped == "json":
        typer.echo(json.dumps(dataclasses.asdict(found)))
        return
    if shaped == "csv":
        say(shaped, rows=[{"profile": profile, "class": line.name} for line in found.classes for profile in line.profiles])
        return
    rows = [[x.name, f"{len(x.profiles):,}", f"{x.compute:.1f}", f"{x.dram:.1f}"] for x in found.classes]
    show_table(["CLASS", "PROFILES", "COMPUTE", "DRAM"], rows)
    for x in found.classes:
        typer.echo(f"{x.name}: {', '.join(x.profiles)}")
    typer.echo(
        "COMPUTE, DRAM: the centre of the class, in percent of the peak.\n"
        f"Silhouette {found.quality:.2f}: near 1 the classes are far apart, near 0 they are not."
    )


def _few(words: Sequence[str]) -> str:
    more = f", and {len(words) - MOST_SHOWN:,} more" if len(words) > MOST_SHOWN else ""
    return ", ".join(words[:MOST_SHOWN]) + more
