"""`rota profile`: show the rates of the built-in catalogue and of measured files, compare the two, and judge estimates.
The commands about tensors, unequal GPUs, scaling and measuring are in files of their own."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from rota.cli import common_flags as flag
from rota.cli import setup
from rota.cli.output import say
from rota.cli.profile_figures import many, short, show_table, times
from rota.cli.profile_gpus import classes, variability
from rota.cli.profile_run import run
from rota.cli.profile_scaling import scaling
from rota.cli.profile_tensors import tensors
from rota.errors import OptionError

MAX_RATES = 40
"""Maximum number of rates in a file that is shown. Larger files are summarised."""

app = typer.Typer(
    help="List and show rates of models, and compare them with measured ones.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_(output: flag.Output = "table") -> None:
    """List the models of the built-in catalogue, with memory and steps per second on one GPU at their usual batch size."""
    shaped = flag.shape(output)
    from rota.profiles.describe import TYPES, entries

    found = entries()
    if shaped == "json":
        typer.echo(json.dumps([dataclasses.asdict(entry) for entry in found]))
        return
    if shaped == "csv":
        plain = [dataclasses.asdict(entry) for entry in found]
        say(shaped, rows=[entry | entry.pop("steps_per_second") for entry in plain])
        return
    rows = [
        [e.name, many(e.params), str(e.batch), short(e.memory_gib), *(short(e.steps_per_second[kind]) for kind in TYPES)]
        for e in found
    ]
    show_table(["NAME", "PARAMS", "BATCH", "GIB", *TYPES], rows)
    typer.echo("Modelled, not measured; -: does not fit in memory. One of them: rota profile show NAME")


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="Profile such as resnet50 or resnet50/bs64, or a file of measured rates.")],
    output: flag.Output = "table",
) -> None:
    """Show the rates of one profile on each accelerator type and GPU count, or the contents of a file of rates.

    Example: rota profile show bert/global64
    """
    shaped = flag.shape(output)
    from rota.profiles.describe import COUNTS, describe, describe_file

    if Path(name).is_file() or Path(name).suffix.lower() in (".csv", ".json"):
        held = describe_file(name)
        if shaped == "json":
            typer.echo(json.dumps(dataclasses.asdict(held)))
            return
        if shaped == "csv" or len(held.rates) <= MAX_RATES:
            say(shaped, rows=held.rates)
        if shaped == "csv":
            return
        typer.echo(f"{held.path}: {len(held.profiles):,} profiles on {', '.join(held.accelerators)}")
        typer.echo(
            f"measured  {held.alone:,} alone, {held.never:,} of them 0; {held.across_nodes:,} across nodes; {held.pairs:,} pairs"
        )
        typer.echo(f"GPUs      {', '.join(str(count) for count in held.gpus)}")
        typer.echo(
            f"{len(held.profiles) - len(held.unknown):,} of the profiles are in the catalogue too: rota profile error {held.path}"
        )
        return
    model = describe(name)
    if shaped == "json":
        typer.echo(json.dumps(dataclasses.asdict(model)))
        return
    if shaped == "csv":
        say(shaped, rows=[dataclasses.asdict(way) for way in model.rates])
        return
    skew = "" if model.skew is None else f", skew {model.skew:.2f}"
    typer.echo(
        f"{model.profile}: {model.title}; {many(model.params)} parameters{skew}, {model.batch:,} examples per {model.batch_of}"
    )
    by_type: dict[str, list[str]] = {}
    for way in model.rates:
        row = by_type.setdefault(way.accelerator, [way.accelerator])
        row += [short(way.steps_per_second), short(way.memory_gib)]
    heads = [head for count in COUNTS for head in (f"{count} GPU{'s' if count > 1 else ''}", "GIB")]
    show_table(["TYPE", *heads], list(by_type.values()))
    typer.echo("Steps per second of the gang in one node, and memory on each GPU; -: does not fit. Modelled, not measured.")


@app.command("error")
def error(
    paths: Annotated[list[str], typer.Argument(help="Files of rates, or folders in ElasticFlow's or Pollux's format.")],
    really: Annotated[
        list[str] | None,
        typer.Option(
            "--rename-type",
            help="Rename a type of the file: V100=RTX5000 reads V100 as RTX5000. Repeatable.",
            metavar="TYPE=TYPE",
        ),
    ] = None,
    output: flag.Output = "table",
) -> None:
    """Compare the catalogue with measured rates.

    Example: rota profile error simulation_throughputs.json
    """
    shaped = flag.shape(output)
    from rota.profiles.error import compare

    report = compare(paths, _renamed(really or []))
    if shaped == "json":
        typer.echo(json.dumps(dataclasses.asdict(report)))
        return
    if shaped == "csv":
        say(shaped, rows=[dataclasses.asdict(line) for line in report.lines])
        return
    rows = [
        [
            x.source,
            x.model,
            x.accelerator,
            f"{x.cells:,}",
            *(times(v) for v in (x.ratio, x.typical_factor, x.p90_factor)),
            str(x.refused),
        ]
        for x in report.lines
    ]
    show_table(["SOURCE", "MODEL", "TYPE", "CELLS", "RATIO", "TYPICAL", "P90", "REFUSED"], rows, left=3)
    typer.echo(
        "RATIO: median of measured over modelled. TYPICAL and P90: half and nine tenths of the cells are within this factor.\n"
        "REFUSED: ran, though the model says it does not fit. "
        f"{report.unknown:,} measurements are of profiles the catalogue does not know."
    )


@app.command("estimate")
def estimate(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="File of measured rates with several profiles.")],
    hide: Annotated[
        float,
        typer.Option(
            "--hide",
            parser=flag.number("--hide"),
            metavar="FRACTION",
            help="Fraction of each profile's rates to hide and estimate.",
        ),
    ] = 0.7,
    seed: setup.Seed = 0,
    output: flag.Output = "table",
) -> None:
    """Measure the error of estimated rates: hide each profile in turn, and estimate it from the others.

    Example: rota profile estimate simulation_throughputs.json --hide 0.7
    """
    shaped = flag.shape(output)
    from rota.profiles.estimate_error import estimate_table

    with flag.progress_bar("profiles left out") as progress:
        report = estimate_table(table, hide, seed, progress)
    if shaped == "json":
        typer.echo(json.dumps(dataclasses.asdict(report)))
        return
    if shaped == "csv":
        say(shaped, rows=[dataclasses.asdict(line) for line in report.lines])
        return
    heads = ["WHAT", "TYPE", "CELLS", "TYPICAL", "P90", "WORST", "NAIVE", "P90", "WORST", "SPREAD", "MISJUDGED"]
    rows = []
    for x in report.lines:
        ours = [x.typical_factor, x.p90_factor, x.worst_factor]
        naive = [x.naive_typical_factor, x.naive_p90_factor, x.naive_worst_factor]
        figures = [times(value) for value in (*ours, *naive, x.said_spread)]
        rows.append([x.what, x.accelerator, f"{x.cells:,}", *figures, f"{x.misjudged:,}"])
    show_table(heads, rows, left=2)
    typer.echo(
        f"{report.profiles:,} profiles, {report.hide:.0%} of the cells of each hidden in turn. "
        "TYPICAL, P90: half and nine tenths of the estimates\nare within this factor. "
        "NAIVE: the same for an estimate from memory bandwidth and GPUs; for pairs, from the mean of the measured\npairs. "
        "SPREAD: the estimator's own uncertainty. MISJUDGED: wrong about whether the job fits in memory; not counted elsewhere."
    )


app.command("run")(run)
app.command("scaling")(scaling)
app.command("tensors")(tensors)
app.command("variability")(variability)
app.command("classes")(classes)


def _renamed(given: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in given:
        named, equals, real = (part.strip().upper() for part in text.partition("="))
        if not (named and equals and real):
            raise OptionError("not TYPE=TYPE.", field="--rename-type", value=text, hint="--rename-type V100=RTX5000")
        found[named] = real
    return found
