"""`rota sweep`: run a grid of simulations on all cores or on a Ray cluster. A restarted sweep keeps its finished cells."""

import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli import common_flags as flag
from rota.cli import completers
from rota.cli.cell_progress import cell_progress, note
from rota.cli.output import note_shape, save, say
from rota.cli.setup import with_setup
from rota.compose.study import CLUSTER
from rota.errors import OptionError

if TYPE_CHECKING:
    from rota.experiments.sweep_result import SweepResult

VARY = (
    "Values of a flag (round_seconds=60/360), of an option of policies or placers that have it (policy.promote=0/8, "
    "placer.sticky=true/false), or of a generated trace (trace.load=0.6/0.8). Separate values that contain slashes by |: "
    '"policy.thresholds=3250/7200|1000".'
)


@with_setup(without=("policy", "placer", "trace", "cluster"))
def sweep(
    policies: Annotated[
        list[str],
        typer.Argument(help="Policies, as for sim --policy; A+B is policy A with placer B.", autocompletion=completers.policies),
    ],
    trace: Annotated[list[str] | None, typer.Option("--trace", help="Trace. Repeatable.")] = None,
    cluster: Annotated[list[str] | None, typer.Option("--cluster", help="Cluster. Repeatable.")] = None,
    placer: Annotated[
        list[str] | None, typer.Option("--placer", help="Placer. Repeatable.", autocompletion=completers.placers)
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option("--vary", metavar="NAME=A/B/C", help=VARY),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds", parser=flag.number("--seeds", whole=True), metavar="N", help="Number of seeds per point of the grid."
        ),
    ] = 1,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FOLDER", help="Folder for results. Default: named after the grid.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            parser=flag.number("--workers", whole=True),
            metavar="N",
            help="Number of processes. Default: one per core.",
        ),
    ] = None,
    ray: flag.CellsOnRay = None,
    insecure_ray: flag.InsecureRay = False,
    html: flag.Html = None,
    debug: flag.Debug = False,
    output: flag.Output = "table",
    setup: dict[str, Any] = {},  # noqa: B006 - never used: the flags are always there
) -> None:
    """Simulate a grid of policies, traces, clusters, settings and seeds.

    Every finished cell is written at once. After a crash or a kill, the same command continues with the missing cells.

    Example: rota sweep fifo tiresias --trace synthetic:jobs=500 --vary trace.load=0.5/0.7 --seeds 3 --out loads --html loads.html
    """
    shaped = flag.shape(output)
    flag.may_write(html)
    if workers is not None and workers < 1:
        raise OptionError("must be at least 1.", field="--workers", value=workers, hint="--workers 2")
    if workers is not None and ray is not None:
        raise OptionError("does not go with --ray.", field="--workers", value=workers, hint="leave --workers out")
    from rota.experiments.grid import Grid
    from rota.experiments.runner import run
    from rota.experiments.vary_options import read_varied

    seed = setup.pop("seed")
    grid = Grid(
        policies=tuple(dict.fromkeys(policies)),
        traces=tuple(trace or ["demo"]),
        clusters=tuple(cluster or [CLUSTER]),
        placers=tuple(placer or ()),
        vary=read_varied(vary or []),
        seeds=seeds,
        seed=seed,
        options=setup,
    )
    folder = out or f"sweep-{hashlib.sha256(repr(grid).encode()).hexdigest()[:8]}"
    with cell_progress("cells", folder, ray, insecure=insecure_ray) as progress:
        found = run(grid, folder, workers=workers, backend=progress.backend, watch=progress.watch)
    _say(found, shaped)
    if html is not None and found.rows:
        save(Path(html), found.page())
        sys.stderr.write(f"page: {html}\n")
    problem = found.problem()
    if problem is not None:
        raise problem


def _say(found: "SweepResult", shaped: str) -> None:
    for each in found.notes:
        note(each)
    if found.outdated:
        note(f"{found.folder} had this grid from other input files or another version of Rota; all cells were run again.")
    if shaped == "json":
        typer.echo(json.dumps(found.to_dict()))
    elif shaped == "csv":
        say("csv", rows=[{**row["axes"], "seed": row["params"]["seed"], **row["summary"]} for row in found.rows])
    else:
        if shaped == "wide":
            note_shape("-o wide shows what -o table does; -o csv has every figure")
        typer.echo(found.table())
        if found.reused:
            typer.echo(f"{found.reused} of them were there before")
