"""`rota drain`: take nodes or GPUs out of service, and move their jobs away."""

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli import common_flags as flag
from rota.cli import moments

if TYPE_CHECKING:
    from rota.wire.client import Client
    from rota.wire.rows import DrainRow, NodeRow

Places = Annotated[list[str], typer.Argument(metavar="NODE|NODE:GPU...", help="Nodes, or single GPUs.", show_default=False)]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Reason, which users see in rota nodes and rota why.")]


def drain(
    places: Places,
    reason: Reason = "",
    until: moments.Until = None,
    length: moments.For = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until no job is left there, and show progress.")] = False,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Drain nodes or GPUs: no job starts there, and jobs that save their state move away. Others stay until they end.

    Without --until or --for, the drain lasts until rota undrain. For operators.

    Example: rota drain n1 n2:3 --reason "fan" --for 2h --wait
    """
    shaped = flag.shape(output)
    until_s, seconds = moments.end_of(until, length)
    from rota.cli import drain_text, job_text
    from rota.wire.client import connect

    client = connect(home)
    found = find_places(client.nodes(), places)  # a mistyped name drains nothing
    rows = [client.drain(node, gpu, reason=reason, until_s=until_s, seconds=seconds) for node, gpu in found]
    if shaped in ("table", "wide"):
        for row in rows:
            job_text.say(f"Drained {drain_text.what(row)}{drain_text.because(row)}. {drain_text.remaining(row)}")
    if wait:
        rows = _until_empty(client, rows)
    if shaped not in ("table", "wide"):
        drain_text.print_data(shaped, rows)


def find_places(nodes: "list[NodeRow]", places: list[str]) -> list[tuple[str, int | None]]:
    """Return the node and the GPU of each place. Raise UnknownNameError if there is no such node."""
    from rota.errors import OptionError, UnknownNameError

    known, found = {node.name: node for node in nodes}, list[tuple[str, int | None]]()
    for place in places:
        name, _, index = place.rpartition(":")
        if place in known:
            found.append((place, None))
        elif name in known and index.isdecimal() and int(index) < len(known[name].gpus):
            found.append((name, int(index)))
        elif name in known:
            last = len(known[name].gpus) - 1
            raise OptionError(
                f"is not a GPU of {name}: it has GPUs 0 to {last}.", field="GPU", value=place, hint=f"{name}:{last}"
            )
        else:
            raise UnknownNameError("node", place, known, hint="rota nodes")
    return found


def _until_empty(client: "Client", rows: "list[DrainRow]") -> "list[DrainRow]":
    """Wait until the drained GPUs have no jobs, and print what is left whenever it changes."""
    from rota.cli import drain_text
    from rota.wire.client import POLL_SECONDS

    wanted, shown = {row.id for row in rows}, {row.id: drain_text.remaining(row) for row in rows}
    latest, seen = {row.id: row for row in rows}, client.changes(0, 0.0)
    while True:
        there = {row.id: row for row in client.reservations() if row.id in wanted}
        for number in wanted - there.keys():
            typer.echo(f"{drain_text.what(latest[number])}: the drain has ended.", err=True)
            wanted.discard(number)
        for number, row in there.items():
            if shown[number] != (text := drain_text.remaining(row)):
                typer.echo(f"{drain_text.what(row)}: {text}", err=True)
                shown[number] = text
        latest |= there
        if all(row.empty for row in there.values()):
            return list(latest.values())
        seen = client.changes(seen, POLL_SECONDS)
