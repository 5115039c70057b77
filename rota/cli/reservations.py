"""`rota reservations`: list drains and planned maintenance."""

from rota.cli import common_flags as flag


def reservations(home: flag.Home = None, output: flag.Output = "table") -> None:
    """List drains and planned maintenance, with the jobs that are still there.

    Example: rota reservations -o json
    """
    shaped = flag.shape(output)
    from rota.cli import drain_text
    from rota.wire.client import connect

    drain_text.print_drains(shaped, connect(home).reservations())
