"""`rota reservations`: list drains, planned maintenance and reservations."""

from rota.cli import common_flags as flag


def reservations(home: flag.Home = None, output: flag.Output = "table") -> None:
    """List drains, planned maintenance and reservations, with the jobs of others that are still there.

    Example: rota reservations -o json
    """
    shaped = flag.shape(output)
    from rota.cli import drain_text
    from rota.wire.client import connect

    drain_text.print_drains(shaped, connect(home).reservations())
