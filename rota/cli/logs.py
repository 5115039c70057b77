"""`rota logs`: what a job has written."""

import json
from typing import Annotated

import typer

from rota.cli import options as flag
from rota.errors import OptionError


def logs(
    job: flag.JobKey,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job has ended.")] = False,
    tail: Annotated[
        int | None,
        typer.Option("--tail", parser=flag.number("--tail", whole=True), metavar="N", help="Begin with the last N lines."),
    ] = None,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Print a job's output, one stream across suspensions.

    Example: rota logs -f 412
    """
    shaped = flag.shape(output)
    if shaped == "csv":
        raise OptionError("output is text.", field="-o", value=output, hint="-o json, or no -o")
    if tail is not None and tail < 0:
        raise OptionError("must be 0 or more.", field="--tail", value=tail, hint="--tail 100")
    from rota.cli import words
    from rota.cli.offline import connect_or_read

    source = connect_or_read(home)
    # By id from here on: another job may take the name while this one is followed.
    pieces = source.log_pieces(source.job(job).id, follow, tail)
    if shaped != "json":
        for piece in pieces:
            words.say(piece.text, end="")
    elif follow:
        for piece in pieces:
            words.say(json.dumps(piece.to_dict()))
    else:
        found = list(pieces)
        last = found[-1].to_dict() if found else {"next_offset": 0, "ended": False}
        words.say(json.dumps({**last, "text": "".join(piece.text for piece in found)}))
