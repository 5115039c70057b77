"""`rota demo`: race policies of five papers on a small cluster of unequal GPUs. It needs no GPU."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli import common_flags as flag
from rota.cli.output import save, say

if TYPE_CHECKING:
    from rota.report.comparison import Comparison

POLICIES = {
    "fifo": ("", "-"),
    "gandiva": ("Gandiva, OSDI'18", "-"),
    "tiresias": ("Tiresias, NSDI'19", "-"),
    "max-min-fairness": ("Gavel, OSDI'20", "-"),
    "ones": ("ONES, SC'21", "how fast each job is at other sizes"),
    "tiresias+pal": ("PAL, SC'24", "how slow each single GPU is"),
    "srsf": ("", "the exact remaining time of every job, which no real scheduler has"),
}
"""Policy -> the paper that published it, and what the policy knows besides the rate of each job on each GPU type."""
GPUS = Path(__file__).with_name("demo_gpus.csv")
"""Slowdown of each of the 24 GPUs. The values are invented: one GPU in eight takes half as long again."""
PROCESSES = 2
PAGE = "rota-demo.html"
NEXT = """\
Try it with real processes on pretend GPUs:
  rota up --pretend 4xV100 --detach
  rota submit --gpus 2 -- sleep 60
  rota jobs"""


def race(progress: Callable[[str, int, int, float], None] | None = None, workers: int = PROCESSES) -> "Comparison":
    """Simulate the trace `race` under every policy. Its jobs are elastic, which `ones` and `gandiva` use."""
    from rota.api import compare

    return compare(list(POLICIES), trace="race", elastic="gpus", variability=str(GPUS), workers=workers, progress=progress)


def legend() -> str:
    """Return a table of where each policy was published and what it knows. A policy that knows more wins more easily."""
    from rota.report.result import plain_table

    table = plain_table(("POLICY", "PAPER", "KNOWS ALSO"), [(name, *facts) for name, facts in POLICIES.items()], left=3)
    return f"{table}\nAll of them know how fast each job is on each GPU type."


def demo(
    page: Annotated[str, typer.Option("--html", metavar="PATH", help="File for the page.")] = PAGE,
    play: Annotated[bool, typer.Option("--race/--no-race", help="Play the race in the terminal.")] = True,
    output: flag.Output = "table",
) -> None:
    """Race policies of five papers, fifo and srsf: 100 generated jobs on 24 unequal GPUs. No GPU, root or network needed.

    Writes a page with the whole result and prints its path.
    """
    shaped = flag.shape(output)
    flag.may_write(page)
    with flag.progress_bars(len(POLICIES)) as progress:
        whole = race(progress)
    path = Path(page).resolve()
    save(path, whole.page())
    if shaped == "table" and play and sys.stdout.isatty():
        from rota.cli.race import play as play_race

        play_race(whole)
    value: Any = whole.to_dict()
    say(shaped, whole, value=value)
    if shaped in ("table", "wide"):
        typer.echo(f"\n{legend()}\n\nEvery job on every GPU, in a browser:\n{path}\n\n{NEXT}")
    else:
        sys.stderr.write(f"page: {path}\n")
