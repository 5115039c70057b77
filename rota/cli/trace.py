"""`rota trace`: describe, convert and generate traces."""

from pathlib import Path
from typing import Annotated

import typer

from rota.cli import common_flags as flag
from rota.cli import setup
from rota.cli.output import say
from rota.errors import OptionError
from rota.model.counted import counted

app = typer.Typer(help="Describe, convert and generate traces.", no_args_is_help=True, rich_markup_mode=None)

TRACE = Annotated[str, typer.Argument(help="File, demo, race, philly-like, synthetic:jobs=500,seed=1 or gavel:jobs=500.")]
OUT = Annotated[str, typer.Argument(help="File to write, in Rota's own format.")]
FORCE = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]


@app.command("info")
def info(trace: TRACE, format: setup.Format = "auto", where: setup.Where = None, output: flag.Output = "table") -> None:
    """Describe a trace: jobs, span, sizes, durations, GPU-hours, and skipped rows with their reasons.

    Example: rota trace info philly-like
    """
    shaped = flag.shape(output)
    from rota.traces.info import describe
    from rota.traces.synthetic import open_trace

    found = describe(open_trace(trace, format=format, where=setup.filters(where)))
    if shaped in ("json", "csv"):
        plain = {name: value for name, value in found.to_dict().items() if not isinstance(value, dict | list | tuple)}
        say(shaped, value=found.to_dict() if shaped == "json" else None, rows=[plain])
        return
    from rota.report.result import duration

    typer.echo(
        f"{found.name} ({found.format}): {counted(found.jobs, 'job')} over {duration(found.span_seconds)}, "
        f"{found.skipped:,} skipped"
    )
    typer.echo("GPUs      " + "   ".join(f"{count}: {jobs:,}" for count, jobs in found.gpus.items()))
    if found.median_seconds is None:
        typer.echo("run time  unknown: the catalogue does not have these profiles; a table of rates may")
    else:
        part = "" if found.timed == found.jobs else f"   (of the {found.timed:,} jobs whose profile is known)"
        typer.echo(
            f"run time  median {duration(found.median_seconds)}   p99 {duration(found.p99_seconds)}   "
            f"longest {duration(found.longest_seconds)}   {found.gpu_hours:,.0f} GPU-hours{part}"
        )
    typer.echo(f"tenants {found.tenants}   users {found.users}   profiles {found.profiles}")
    for why, rows in found.skipped_why.items():
        typer.echo(f"skipped   {rows:,}: {why}")
    for note in found.notes:
        typer.echo(f"note      {note}")


@app.command("convert")
def convert(
    trace: TRACE,
    out: OUT,
    format: setup.Format = "auto",
    where: setup.Where = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="NAME=COLUMN,...",
            help="Read any CSV file by its columns: submit=..., gpus=..., seconds=..., user=..., tenant=... and others.",
        ),
    ] = None,
    force: FORCE = False,
    output: flag.Output = "table",
) -> None:
    """Convert a trace to Rota's own format. It may be the accounting of Slurm or Kueue, or any CSV file (--columns).

    Example: rota trace convert philly.csv mine.csv --where cluster=6214e9
    """
    from rota.traces.mapped_columns import FLAG, mapped_format, read_columns
    from rota.traces.read_trace import AUTO, read_trace
    from rota.traces.synthetic import open_trace
    from rota.traces.write_trace import write_trace

    shaped = flag.shape(output)
    _may_write(out, force)
    if columns is None:
        found = open_trace(trace, format=format, where=setup.filters(where))
    elif format != AUTO:
        raise OptionError("does not go with --format.", field=FLAG, value=columns, hint="one of the two")
    else:
        found = read_trace(trace, format=mapped_format(read_columns(columns, filtered=bool(where))), where=setup.filters(where))
    write_trace(found, out)
    if shaped in ("json", "csv"):
        row = {"path": out, "jobs": len(found), "skipped": len(found.skipped), "notes": " ".join(found.notes)}
        say(shaped, value=row if shaped == "json" else None, rows=[row])
        return
    typer.echo(f"{out}: {counted(len(found), 'job')}, {len(found.skipped):,} skipped")
    for note in found.notes:
        typer.echo(f"note: {note}")


@app.command("generate")
def generate(
    out: OUT,
    jobs: Annotated[
        int, typer.Option("--jobs", parser=flag.number("--jobs", whole=True), metavar="N", help="Number of jobs.")
    ] = 200,
    seed: setup.Seed = 0,
    load: Annotated[
        float, typer.Option("--load", parser=flag.number("--load"), metavar="NUMBER", help="Offered load on --gpus GPUs.")
    ] = 0.9,
    gpus: Annotated[
        int,
        typer.Option(
            "--gpus", parser=flag.number("--gpus", whole=True), metavar="N", help="Number of GPUs for which the load is computed."
        ),
    ] = 24,
    tenants: Annotated[
        int, typer.Option("--tenants", parser=flag.number("--tenants", whole=True), metavar="N", help="Number of tenants.")
    ] = 0,
    rhythm: Annotated[
        float,
        typer.Option(
            "--diurnal",
            parser=flag.number("--diurnal"),
            metavar="NUMBER",
            help="Strength of the daily cycle of arrivals, from 0 to 1.",
        ),
    ] = 0.0,
    models: Annotated[
        int,
        typer.Option(
            "--models",
            parser=flag.number("--models", whole=True),
            metavar="N",
            help="Number of different models that the jobs train.",
        ),
    ] = 0,
    force: FORCE = False,
    output: flag.Output = "table",
) -> None:
    """Generate a trace that looks like Philly's.

    Example: rota trace generate mine.csv --jobs 500 --seed 1 --load 0.8 --gpus 64
    """
    from rota.traces.synthetic import named
    from rota.traces.write_trace import write_trace

    shaped = flag.shape(output)
    _may_write(out, force)
    text = f"jobs={jobs},seed={seed},load={load},gpus={gpus},tenants={tenants},rhythm={rhythm},models={models}"
    made = named(f"synthetic:{text}")
    write_trace(made, out)
    if shaped in ("json", "csv"):
        row = {"path": out, "jobs": len(made), "trace": made.name}
        say(shaped, value=row if shaped == "json" else None, rows=[row])
        return
    typer.echo(f"{out}: {counted(len(made), 'job')} (seed {seed})")


def _may_write(out: str, force: bool) -> None:
    if Path(out).exists() and not force:
        raise OptionError("the file exists.", field="OUT", value=out, hint="another name, or --force")
