"""`rota demo`: policies of five papers race on a small cluster of unequal GPUs. Needs nothing but this machine."""

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
"""Policy -> where it was published, and what it knows besides the speed of each job on each GPU type."""
GPUS = Path(__file__).with_name("demo_gpus.csv")
"""How slow each of the 24 GPUs is: made up, one in eight takes half as long again."""
PROCESSES = 2
PAGE = "rota-demo.html"
NEXT = """\
Try it with real processes on pretend GPUs:
  rota up --pretend 4xV100 --detach
  rota submit --gpus 2 -- sleep 60
  rota jobs"""


def race(progress: Callable[[str, int, int, float], None] | None = None, workers: int = PROCESSES) -> "Comparison":
    """Run the jobs of the trace `race` under every policy. Jobs accept other numbers of GPUs; `ones` and
    `gandiva` make use of it."""
    from rota.api import compare

    return compare(list(POLICIES), trace="race", elastic="gpus", variability=str(GPUS), workers=workers, progress=progress)


def legend() -> str:
    """Where each policy was published, and what it knows: with more knowledge it is easier to win."""
    from rota.report.result import plain_table

    table = plain_table(("POLICY", "PAPER", "KNOWS ALSO"), [(name, *told) for name, told in POLICIES.items()], left=3)
    return f"{table}\nAll of them know how fast each job is on each GPU type."


def demo(
    page: Annotated[str, typer.Option("--html", metavar="PATH", help="Where the page goes.")] = PAGE,
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
