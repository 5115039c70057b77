"""`rota profile variability` and `rota profile classes`: how unequal GPUs of one type are, and for which profiles."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Annotated

import typer

from rota.cli import common_flags as flag
from rota.cli import setup
from rota.cli.output import say
from rota.cli.profile_figures import show_table

MAX_SHOWN = 6
"""Maximum number of bins or slow GPUs on one line."""


def variability(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Folder with profiles.json, file of runs, or file of scores.")],
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="Cluster whose GPUs get scores. Default: the GPUs of the file.")
    ] = None,
    seed: setup.Seed = 0,
    median: Annotated[
        bool, typer.Option("--variability-medians", help="Use the median of a GPU's runs as its score, not one run.")
    ] = False,
    output: flag.Output = "table",
) -> None:
    """Show how unequal the GPUs of one type are, by application class.

    Example: rota profile variability pal_variability --cluster "16x(4xV100)" --variability-medians
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
    path: Annotated[str, typer.Argument(metavar="FILE", help="CSV file with the columns profile, compute and dram.")],
    output: flag.Output = "table",
) -> None:
    """Group profiles that use a GPU alike into application classes, the most compute-bound first.

    Example: rota profile classes utilization.csv
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


def _few(texts: Sequence[str]) -> str:
    more = f", and {len(texts) - MAX_SHOWN:,} more" if len(texts) > MAX_SHOWN else ""
    return ", ".join(texts[:MAX_SHOWN]) + more
