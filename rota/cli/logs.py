"""`rota logs`: what a job has written."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from rota.cli import common_flags as flag
from rota.errors import OptionError

_STEERING = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]")
"""Control characters but for tab and newline, and signs that turn the direction of a line."""


def harmless(texts: Iterable[str]) -> Iterator[str]:
    """Pieces of output in which nothing steers a terminal. A carriage return begins a line, as progress bars mean it to; others
    are shown as they are written in Python: `\\x1b` for escape."""
    ended_with_return = False
    for text in texts:
        whole = text[1:] if ended_with_return and text.startswith("\n") else text
        ended_with_return = text.endswith("\r") if text else ended_with_return
        lines = whole.replace("\r\n", "\n").replace("\r", "\n")
        yield _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), lines)


def logs(
    job: flag.JobKey,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job has ended.")] = False,
    tail: Annotated[
        int | None,
        typer.Option("--tail", parser=flag.number("--tail", whole=True), metavar="N", help="Begin with the last N lines."),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print control characters as they are; else they are shown as text.")
    ] = False,
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
    from rota.cli import job_text
    from rota.cli.offline import connect_or_read

    source = connect_or_read(home)
    # By id from here on: another job may take the name while this one is followed.
    pieces = source.log_pieces(source.job(job).id, follow, tail)
    if shaped != "json":
        texts = (piece.text for piece in pieces)
        for text in texts if raw else harmless(texts):
            job_text.say(text, end="")
    elif follow:
        for piece in pieces:
            job_text.say(json.dumps(piece.to_dict()))
    else:
        found = list(pieces)
        last = found[-1].to_dict() if found else {"next_offset": 0, "ended": False}
        job_text.say(json.dumps({**last, "text": "".join(piece.text for piece in found)}))
