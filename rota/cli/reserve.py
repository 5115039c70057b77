"""`rota reserve`: plan maintenance of nodes or GPUs, or reserve them for tenants and users."""

from typing import Annotated

import typer

from rota.cli import common_flags as flag
from rota.cli import moments
from rota.cli.drain import Reason
from rota.errors import OptionError


def reserve(
    places: Annotated[
        list[str],
        typer.Argument(metavar="GPUS...", help='Nodes, GPUs as NODE:GPU, or a number such as "8xA100".', show_default=False),
    ],
    start: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Beginning: 18:00, 2026-11-20, 2026-11-20T18:00, or now.")
    ] = "now",
    until: moments.Until = None,
    length: moments.For = None,
    tenant: Annotated[
        list[str] | None, typer.Option("--tenant", metavar="TENANT", help="Tenant whose jobs may use the GPUs. Repeatable.")
    ] = None,
    user: Annotated[
        list[str] | None, typer.Option("--user", metavar="USER", help="User whose jobs may use the GPUs. Repeatable.")
    ] = None,
    reason: Reason = "",
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Reserve GPUs for tenants and users, or plan maintenance. For operators.

    Without --tenant and --user it is maintenance: no job may use the GPUs. Other jobs leave when it begins, if they can be
    suspended.

    Example: rota reserve 8xA100 --from 2030-11-20T18:00 --for 2d --tenant vision --reason "deadline"
    """
    shaped = flag.shape(output)
    until_s, seconds = moments.end_of(until, length)
    if until_s is None and seconds is None:
        raise OptionError("is missing: when does the reservation end?", field="--for", hint="--for 2h, or --until 20:00")
    from_s = moments.unix_of(start, "--from")
    from rota.cli import drain_text, job_text
    from rota.wire.client import connect

    row = connect(home).reserve(
        places, from_s or 0.0, until_s=until_s, seconds=seconds, reason=reason, tenants=tenant or (), users=user or ()
    )
    if shaped not in ("table", "wide"):
        drain_text.print_data(shaped, [row], single=True)
        return
    begins = "now" if row.begun else job_text.clock(row.from_at)
    does = f"reserves {drain_text.what(row)} for {drain_text.owners(row)}" if row.reserves else f"drains {drain_text.what(row)}"
    job_text.say(f"Reservation {row.id}: {does} from {begins}{drain_text.because(row)}.")
    if row.staying:
        job_text.say(f"Now there: {drain_text.remaining(row)}")
