"""`rota profile tensors`: read the sizes of a model's tensors from the model itself."""

import contextlib
import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from rota.cli import common_flags as flag
from rota.cli.output import say
from rota.errors import OptionError


def tensors(
    where: Annotated[
        str, typer.Argument(metavar="WHERE", help="Class or function to call: package.module:Net or path/to/net.py:Net.")
    ],
    given: Annotated[
        list[str] | None,
        typer.Option("--arg", metavar="KEY=VALUE", help="Argument of the class or function. Repeatable."),
    ] = None,
    profile: Annotated[
        str, typer.Option("--profile", metavar="PROFILE", help="Profile that jobs name. Default: the class's or function's name.")
    ] = "",
    save: Annotated[
        str | None, typer.Option("--save", metavar="FILE", help="CSV file in which to add or replace the profile.")
    ] = None,
    output: flag.Output = "table",
) -> None:
    """Show the skew of a PyTorch model: the size of its largest tensor over all parameters.

    Example: rota profile tensors torchvision.models:vgg19 --save skews.csv
    """
    shaped = flag.shape(output)
    from rota.placers.skew import LIMIT
    from rota.profiles.tensors import module_tensors, save_tensors

    arguments = _arguments(given or [])
    # The output of the user's code is not part of the result.
    with contextlib.redirect_stdout(sys.stderr):
        found = module_tensors(where, arguments, profile)
    if save is not None:
        save_tensors(save, [found])
    row = dataclasses.asdict(found) | {"skew": found.skew}
    if shaped == "json":
        typer.echo(json.dumps(row))
        return
    if shaped == "csv":
        say(shaped, rows=[row])
        return
    typer.echo(f"{found.profile}: {found.parameters:,} parameters in {found.tensors:,} tensors")
    typer.echo(f"largest   {found.largest_name}: {found.largest:,}, {found.skew:.1%} of all")
    treated = "consolidated" if found.skew > LIMIT else "may be spread"
    typer.echo(f"Skew {found.skew:.2f}: {treated} by the `skew` placer (limit {LIMIT:g}).")
    if save is not None:
        typer.echo(f"Saved in {save}.")


def _arguments(given: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise OptionError("not KEY=VALUE.", field="--arg", value=text, hint="--arg width=64")
        if key in found:
            raise OptionError(f"{key} is given twice.", field="--arg", value=text, hint="keep one of the two")
        found[key] = _value(value)
    return found


def _value(text: str) -> Any:
    """Parse a value as JSON. Text that is not JSON is returned unchanged."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, (dict, list)) else value
