"""`rota undrain`: put nodes or GPUs back into service."""

from rota.cli import common_flags as flag
from rota.cli.drain import Places


def undrain(places: Places, home: flag.Home = None, output: flag.Output = "table") -> None:
    """Put nodes or GPUs back into service. A node that was removed may join again. For operators.

    Example: rota undrain n1 n2:3
    """
    shaped = flag.shape(output)
    from rota.cli import drain_text, job_text
    from rota.wire.client import connect

    client = connect(home)
    names = {node.name for node in client.nodes()}
    left = client.reservations()
    for place in places:
        name, _, index = place.rpartition(":")
        one = place not in names and name in names and index.isdecimal()
        left = client.undrain(name, int(index)) if one else client.undrain(place)
        if shaped in ("table", "wide"):
            job_text.say(f"{job_text.clean(place)} is no longer drained.")
    if shaped not in ("table", "wide"):
        drain_text.print_data(shaped, left)
