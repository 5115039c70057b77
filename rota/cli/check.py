"""`rota check`: check files before anything depends on them."""

from typing import Annotated

import typer

from rota.cli import common_flags as flag
from rota.cli.output import say
from rota.errors import InputError, RotaError


def check(
    files: Annotated[
        list[str], typer.Argument(help="Traces, rates, clusters, job specs, scripts, tenants or policies (./mine.py:Mine).")
    ],
    output: flag.Output = "table",
) -> None:
    """Check traces, tables of rates, clusters, job specs, scripts, tenants and policies as if they were used.

    Example: rota check job.yaml cluster.yaml jobs.csv
    """
    shaped = flag.shape(output)
    from rota.compose.file_check import FileCheck, check_file

    found: list[tuple[str, FileCheck | RotaError]] = []
    for file in files:
        try:
            found.append((file, check_file(file)))
        except RotaError as problem:
            found.append((file, problem))
    wrong = [problem for _, problem in found if isinstance(problem, RotaError)]
    if shaped in ("json", "csv"):
        say(shaped, rows=[_row(file, each) for file, each in found])
    else:
        for file, each in found:
            if isinstance(each, RotaError):
                typer.echo(f"{each.message}\nTry: {each.hint or 'rota check --help'}", err=True)
            else:
                typer.echo(f"{file}  ok: {each.kind}, {each.summary}")
    if wrong:
        raise typer.Exit(2 if all(isinstance(problem, InputError) for problem in wrong) else 1)


def _row(file: str, each: object) -> dict[str, object]:
    if isinstance(each, RotaError):
        line = getattr(each, "line", None)
        return {
            "file": file,
            "ok": False,
            "error": each.message,
            "line": line,
            "field": getattr(each, "field", ""),
            "hint": each.hint,
        }
    return {"file": file, "ok": True, "kind": getattr(each, "kind", ""), "says": getattr(each, "says", "")}
