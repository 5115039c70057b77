"""`rota sweep`: a grid of simulations on all cores; killed and started again, it goes on where it was."""

import hashlib
import json
import math
import sys
from typing import Annotated, Any

import typer

from rota.cli import options as flag
from rota.cli.setup import with_setup
from rota.errors import OptionError


@with_setup(without=("trace", "cluster"))
def sweep(
    policies: Annotated[list[str], typer.Argument(help="Policies as for sim --policy; A+B is policy A with placer B.")],
    trace: Annotated[list[str] | None, typer.Option("--trace", help="Traces; may be given several times.")] = None,
    cluster: Annotated[list[str] | None, typer.Option("--cluster", help="Clusters; may be given several times.")] = None,
    placer: Annotated[list[str] | None, typer.Option("--placer", help="Placers; may be given several times.")] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option("--vary", metavar="NAME=A/B/C", help="Values of a setting: round_seconds=60/360, trace.load=0.6/0.8/1."),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", parser=flag.number("--seeds", whole=True), metavar="N", help="So many seeds for each point.")
    ] = 1,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FOLDER", help="Where results go; a folder named after the grid if left out.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", parser=flag.number("--workers", whole=True), metavar="N", help="Processes; one per core if left out."
        ),
    ] = None,
    output: flag.Output = "table",
    setup: dict[str, Any] = {},  # noqa: B006 - never used: the flags are always there
) -> None:
    """Simulate a grid of policies, traces, clusters, settings and seeds.

    Every finished cell is kept at once, so the same command goes on after a crash or a kill.

    Example: rota sweep fifo tiresias srsf --trace synthetic:jobs=1000 --vary trace.load=0.5/0.7/0.9 --seeds 3 --out loads
    """
    shaped = flag.shape(output)
    if workers is not None and workers < 1:
        raise OptionError("must be at least 1.", field="--workers", value=workers, hint="--workers 2")
    from rota.cli.show import say
    from rota.sweeps.grid import Grid
    from rota.sweeps.runner import run

    seed = setup.pop("seed")
    grid = Grid(
        policies=tuple(dict.fromkeys(policies)),
        traces=tuple(trace or ["demo"]),
        clusters=tuple(cluster or [flag.CLUSTER]),
        placers=tuple(placer or ()),
        vary=_varied(vary or []),
        seeds=seeds,
        seed=seed,
        options={name: value for name, value in setup.items() if value is not None and value is not False and value != []},
    )
    folder = out or f"sweep-{hashlib.sha256(repr(grid).encode()).hexdigest()[:8]}"
    kept = 0

    def watch(done: int, total: int) -> None:
        nonlocal kept
        kept = done
        progress("cells", done, total, 0.0)

    with flag.progress_bars(1) as progress:
        try:
            found = run(grid, folder, workers=workers, watch=watch)
        except KeyboardInterrupt:
            sys.stderr.write(f"Stopped: {kept} of {len(grid)} cells are kept in {folder}.\nTry: the same command goes on\n")
            raise typer.Exit(130) from None
    for note in dict.fromkeys(note for row in found.rows for note in row["params"]["notes"]):
        sys.stderr.write(f"note: {note}\n")
    if shaped == "json":
        typer.echo(json.dumps(found.to_dict()))
    elif shaped == "csv":
        say("csv", rows=[{**row["axes"], "seed": row["params"]["seed"], **row["summary"]} for row in found.rows])
    else:
        typer.echo(str(found))
        if found.reused:
            typer.echo(f"{found.reused} of them were there before")
    problem = found.problem()
    if problem is not None:
        raise problem


def _varied(texts: list[str]) -> dict[str, tuple[float, ...]]:
    found: dict[str, tuple[float, ...]] = {}
    for text in texts:
        name, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not values:
            raise OptionError("not NAME=A/B/C.", field="--vary", value=text, hint="--vary round_seconds=60/360")
        if name in found:
            raise OptionError("given twice.", field="--vary", value=name, hint="put all values behind one --vary")
        try:
            numbers = tuple(float(value) for value in values.split("/"))
            if not all(math.isfinite(number) for number in numbers):
                raise ValueError
        except ValueError:
            raise OptionError(
                "not numbers with slashes between.", field="--vary", value=text, hint=f"--vary {name}=1/2"
            ) from None
        found[name] = tuple(int(number) if number == int(number) else number for number in dict.fromkeys(numbers))
    return found
