"""`rota demo`: policies race on a small cluster of unequal GPUs. Needs nothing but this machine."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rota.cli import options as flag
from rota.cli.show import save, say

POLICIES = ["fifo", "fifo:backfill=true", "las", "tiresias", "gittins", "srtf", "srsf"]
PAGE = "rota-demo.html"


def demo(
    page: Annotated[str, typer.Option("--html", metavar="PATH", help="Where the page goes.")] = PAGE,
    race: Annotated[bool, typer.Option("--race/--no-race", help="Play the race in the terminal.")] = True,
    output: flag.Output = "table",
) -> None:
    """Race the classic policies: about 200 made-up jobs on 24 unequal GPUs, in seconds. No GPU, root or network needed.

    The last line of the output is the path of a page with the whole result.
    """
    shaped = flag.shape(output)
    flag.may_write(page)
    from rota.api import compare

    with flag.progress_bars(len(POLICIES)) as progress:
        whole = compare(POLICIES, trace="demo", progress=progress)
    path = Path(page).resolve()
    save(path, whole.page())
    if shaped == "table" and race and sys.stdout.isatty():
        from rota.cli.race import play

        play(whole)
    value: Any = whole.to_dict()
    say(shaped, whole, value=value)
    if shaped in ("table", "wide"):
        typer.echo(f"\nEvery job on every GPU, in a browser:\n{path}")
    else:
        sys.stderr.write(f"page: {path}\n")
