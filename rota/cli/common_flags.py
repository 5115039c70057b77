"""Flags that several commands take, declared once."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli import completers
from rota.errors import DEBUG, OptionError

if TYPE_CHECKING:
    from rota.sim.engine import Progress


def number(flag: str, whole: bool = False, like: str = "") -> Any:
    """Return a parser of numbers whose error names the flag and the value."""

    def parse(text: Any) -> float:
        try:
            return int(text) if whole else float(text)
        except ValueError as problem:
            kind, example = ("a whole number", "3") if whole else ("a number", "360")
            raise OptionError(f"not {kind}.", field=flag, value=text, hint=f"{flag} {like or example}") from problem

    return parse


def _debug(wanted: bool) -> None:
    if wanted:
        os.environ[DEBUG] = "1"


Debug = Annotated[bool, typer.Option("--debug", callback=_debug, help="Show the traceback when a policy raises.")]
Output = Annotated[
    str, typer.Option("-o", "--output", help="Output format: table, wide, json or csv.", autocompletion=completers.outputs)
]
Home = Annotated[
    str | None, typer.Option("--home", metavar="DIR", help="Directory of the scheduler's state. Default: see rota config.")
]
JobKey = Annotated[
    str, typer.Argument(metavar="JOB", help="Job id, name, or unambiguous beginning of a name.", autocompletion=completers.jobs)
]
JobKeys = Annotated[list[str], typer.Argument(metavar="JOB...", help="Job ids or names.", autocompletion=completers.jobs)]
InsecureRay = Annotated[
    bool, typer.Option("--insecure-ray", help="With --ray: accept a cluster without a token. Only for private test machines.")
]
CellsOnRay = Annotated[
    str | None,
    typer.Option("--ray", metavar="ADDRESS", help="Run cells on this Ray cluster; auto for the one on this machine."),
]
Html = Annotated[str | None, typer.Option("--html", metavar="PATH", help="Write the result as one self-contained HTML page.")]

BAR_AFTER_SECONDS = 2.0
LINE_EVERY_SECONDS = 10.0

SHAPES = ("table", "wide", "json", "csv")


def shape(output: str) -> str:
    if output in SHAPES:
        return output
    raise OptionError("not an output.", field="-o", value=output, hint=f"-o {', '.join(SHAPES)}")


def may_write(page: str | None) -> None:
    """Raise OptionError if the page cannot be written, before an hour of simulation and not after it."""
    if page is None:
        return
    path = Path(page)
    if path.is_dir():
        raise OptionError("is a folder.", field="--html", value=page, hint=f"--html {path / 'result.html'}")
    if not path.parent.is_dir():
        raise OptionError("its folder does not exist.", field="--html", value=page, hint=f"mkdir -p {path.parent}")
    if path.suffix.lower() not in (".html", ".htm"):
        raise OptionError("a page's name ends in .html.", field="--html", value=page, hint=f"--html {path}.html")


@contextmanager
def progress_bar(label: str) -> Iterator["Progress"]:
    """Show the progress of one run on standard error if it takes more than two seconds."""
    with progress_bars(1) as show:
        yield partial(show, label)


@contextmanager
def progress_bars(runs: int) -> Iterator[Callable[[str, int, int, float], None]]:
    """Show the progress of several runs, one after the other. A terminal shows a bar; a file or a pipe gets a line every ten
    seconds."""
    import time

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns: list[Any] = [
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    ]
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    past, shown_s = 0, time.monotonic()
    started = False
    task = bar.add_task("", total=None)

    def show(label: str, done: int, total: int, now_s: float) -> None:
        nonlocal past, shown_s, started
        silent_seconds = time.monotonic() - shown_s
        what = label + (f"  run {past + 1} of {runs}" if runs > 1 else "")
        if not started and silent_seconds > BAR_AFTER_SECONDS:
            bar.start()
            started = True
        if started and console.is_terminal:
            bar.update(task, completed=past * total + done, total=runs * total, description=what)
        elif silent_seconds > LINE_EVERY_SECONDS:
            console.print(f"{what}: {done:,} of {total:,}", highlight=False, markup=False)
            shown_s = time.monotonic()
        past += done == total

    try:
        yield show
    finally:
        bar.stop()
