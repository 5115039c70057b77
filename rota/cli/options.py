"""Flags that several commands take, declared once."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.errors import OptionError

if TYPE_CHECKING:
    from rota.sim.engine import Progress

CLUSTER = "8xV100 + 8xP100 + 8xK80"


def number(flag: str, whole: bool = False) -> Any:
    """A parser that names flag and value when it is given something else."""

    def parse(text: Any) -> float:
        try:
            return int(text) if whole else float(text)
        except ValueError as problem:
            kind, example = ("a whole number", "3") if whole else ("a number", "360")
            raise OptionError(f"not {kind}.", field=flag, value=text, hint=f"{flag} {example}") from problem

    return parse


Trace = Annotated[str, typer.Option("--trace", help="A file, demo, philly-like, or synthetic:jobs=500,seed=1.")]
Format = Annotated[str, typer.Option("--format", help="auto, rota, philly or tiresias.")]
Cluster = Annotated[str, typer.Option("--cluster", help='"36xV100 + 36xP100", or nodes: "9x(4xV100)".')]
Placer = Annotated[str | None, typer.Option("--placer", help="packed, spread or random, e.g. packed:sticky=false.")]
Preset = Annotated[str | None, typer.Option("--preset", help="ideal: no overheads, equal GPUs. Default: measured overheads.")]
Profile = Annotated[str | None, typer.Option("--profile", help="A table of rates: profile,accelerator,gpus,steps_per_second.")]
Where = Annotated[list[str] | None, typer.Option("--where", help="Only rows with COLUMN=VALUE; may be given several times.")]
First = Annotated[
    int | None,
    typer.Option("--first", parser=number("--first", whole=True), metavar="N", help="Only the first N jobs by arrival."),
]
Window = Annotated[str | None, typer.Option("--jobs", help="FIRST:LAST, the jobs that count for averages.")]
Drop = Annotated[bool, typer.Option("--drop-oversized", help="Leave out jobs that can never fit, and count them.")]
Decide = Annotated[str | None, typer.Option("--decide", help="events, rounds or both.")]
Round = Annotated[
    float | None,
    typer.Option("--round-seconds", parser=number("--round-seconds"), metavar="NUMBER", help="Decide at every multiple of this."),
]
Seed = Annotated[int, typer.Option("--seed", parser=number("--seed", whole=True), metavar="N", help="Same seed, same result.")]
Output = Annotated[str, typer.Option("-o", "--output", help="table or json.")]
Launch = Annotated[
    float | None,
    typer.Option("--launch-seconds", parser=number("--launch-seconds"), metavar="NUMBER", help="What starting a job costs."),
]
Checkpoint = Annotated[
    float | None,
    typer.Option(
        "--checkpoint-seconds", parser=number("--checkpoint-seconds"), metavar="NUMBER", help="What saving its state costs."
    ),
]
Restore = Annotated[
    float | None,
    typer.Option("--restore-seconds", parser=number("--restore-seconds"), metavar="NUMBER", help="What loading its state costs."),
]
Spread = Annotated[
    float | None,
    typer.Option(
        "--spread-penalty",
        parser=number("--spread-penalty"),
        metavar="NUMBER",
        help="How many times longer a step takes across nodes.",
    ),
]
Mtbf = Annotated[
    float | None,
    typer.Option(
        "--node-mtbf-seconds",
        parser=number("--node-mtbf-seconds"),
        metavar="NUMBER",
        help="Mean time between failures of a node.",
    ),
]
Repair = Annotated[
    float | None,
    typer.Option(
        "--node-repair-seconds", parser=number("--node-repair-seconds"), metavar="NUMBER", help="How long a failed node is away."
    ),
]
Every = Annotated[
    float | None,
    typer.Option(
        "--checkpoint-every-seconds",
        parser=number("--checkpoint-every-seconds"),
        metavar="NUMBER",
        help="How often a running job saves its state.",
    ),
]


def shape(output: str) -> str:
    """table or json; what comes later is refused by name."""
    if output in ("table", "json"):
        return output
    if output in ("csv", "wide"):
        raise OptionError("is planned and not in this version yet.", field="-o", value=output, hint="-o json")
    raise OptionError("not an output.", field="-o", value=output, hint="-o table or -o json")


def not_yet(name: str, value: object) -> None:
    """A flag of the public contract whose part has not arrived: refused by name."""
    if value is not None:
        raise OptionError("is planned and not in this version yet.", field=name, value=value, hint=f"leave {name} out")


def filters(where: list[str] | None) -> list[tuple[str, str]]:
    found = []
    for text in where or []:
        column, equals, value = text.partition("=")
        if not equals or not column:
            raise OptionError("not COLUMN=VALUE.", field="--where", value=text, hint="--where cluster=6214e9")
        found.append((column.strip(), value.strip()))
    return found


def window(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, colon, last = text.partition(":")
    if not colon or not first.strip().isdigit() or not last.strip().isdigit():
        raise OptionError("not FIRST:LAST.", field="--jobs", value=text, hint="--jobs 100:500")
    return int(first), int(last)


@contextmanager
def progress_bar(label: str) -> Iterator["Progress"]:
    """A bar on standard error for whatever takes more than two seconds."""
    import time

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns: list[Any] = [
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    ]
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    began, shown = time.monotonic(), False
    task = bar.add_task(label, total=None)

    def show(done: int, total: int, now_s: float) -> None:
        nonlocal shown
        if not shown and time.monotonic() - began > 2:
            bar.start()
            shown = True
        if shown:
            bar.update(task, completed=done, total=total)

    try:
        yield show
    finally:
        if shown:
            bar.stop()
