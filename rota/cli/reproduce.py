"""`rota reproduce`: run the experiments of a paper again."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from rota.cli import common_flags as flag
from rota.cli.cell_progress import cell_progress
from rota.cli.output import save, say


def reproduce(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="Paper: gavel, pal, tiresias, gandiva or ones.")],
    quick: Annotated[bool, typer.Option("--quick", help="Use a coarse grid: a minute or two instead of ten.")] = False,
    data: Annotated[
        str | None, typer.Option("--data", metavar="FOLDER", help="Folder with the paper's data. Default: modelled data.")
    ] = None,
    html: Annotated[
        str | None, typer.Option("--html", metavar="PATH", help="File for the page. Default: rota-PAPER.html.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FOLDER", help="Folder for finished simulations. Default: reproduce-PAPER."),
    ] = None,
    ray: flag.CellsOnRay = None,
    insecure_ray: flag.InsecureRay = False,
    output: flag.Output = "table",
) -> None:
    """Run the experiments of a paper and compare the results with its claims.

    Every finished simulation is written at once. After a crash or a kill, the same command continues with the missing ones.

    Example: rota reproduce gavel --quick --html gavel.html
    """
    shaped = flag.shape(output)
    path = Path(html or f"rota-{paper}.html")
    flag.may_write(str(path))
    from rota.papers.reproduce import reproduce as run

    folder = out or f"reproduce-{paper}"
    with cell_progress("simulations", folder, ray, insecure=insecure_ray) as progress:
        found = run(paper, quick=quick, data=data, out=folder, backend=progress.backend, watch=progress.watch)
    save(path, found.html)
    if shaped == "json":
        say(shaped, value=found.to_dict(str(path)))
    elif shaped == "csv":
        say(shaped, rows=[each.to_dict() for each in found.claims])
    else:
        typer.echo(str(found))
    sys.stderr.write(f"page: {path}\n")
