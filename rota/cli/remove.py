"""`rota remove`: remove a node for good."""

from typing import Annotated

import typer

from rota.cli import common_flags as flag


def remove(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Name of the node.", show_default=False)],
    force: Annotated[
        bool, typer.Option("--force", help="Remove a lost node though its jobs may run until their leases end.")
    ] = False,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Remove a node that is drained and empty, or lost. It does not join again before rota undrain NODE. For operators.

    Example: rota drain n1 --wait && rota remove n1
    """
    shaped = flag.shape(output)
    from rota.cli import drain_text, job_text
    from rota.wire.client import connect

    left = connect(home).remove_node(node, force=force)
    if shaped in ("table", "wide"):
        job_text.say(f"Removed {job_text.clean(node)}. To let it join again: rota undrain {job_text.clean(node)}")
    else:
        drain_text.print_data(shaped, left)
