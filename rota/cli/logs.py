"""`rota logs`: print a job's output."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from rota.cli import common_flags as flag
from rota.errors import OptionError

_STEERING = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069]")
"""Control characters except tab and newline, and characters that change the direction of text."""


def harmless(texts: Iterable[str]) -> Iterator[str]:
    """Make output safe for a terminal. A carriage return starts a new line, as progress bars need it. Other control characters
    are shown as Python escapes, such as `\\x1b`."""
    ended_with_return = False
    for text in texts:
        whole = text[1:] if ended_with_return and text.startswith("\n") else text
        ended_with_return = text.endswith("\r") if text else ended_with_return
        lines = whole.replace("\r\n", "\n").replace("\r", "\n")
        yield _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), lines)


def logs(
    job: flag.JobKey,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Print new output until the job has ended.")] = False,
    tail: Annotated[
        int | None,
        typer.Option("--tail", parser=flag.number("--tail", whole=True), metavar="N", help="Start with the last N lines."),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print control characters as they are, instead of as text.")] = False,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Print a job's output. Output before and after suspensions is one stream.

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
    # Followed by id, since another job may take the name meanwhile.
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
