"""`rota unreserve`: end a drain, planned maintenance or a reservation."""

from typing import Annotated

import typer

from rota.cli import common_flags as flag


def unreserve(
    number: Annotated[int, typer.Argument(metavar="ID", help="Number, from rota reservations.", show_default=False)],
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """End a drain, planned maintenance or a reservation, whether it has begun or not. For operators.

    Example: rota unreserve 4
    """
    shaped = flag.shape(output)
    from rota.cli import drain_text, job_text
    from rota.wire.client import connect

    left = connect(home).unreserve(number)
    if shaped in ("table", "wide"):
        job_text.say(f"Ended reservation {number}.")
    else:
        drain_text.print_data(shaped, left)
