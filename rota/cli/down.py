"""`rota down`: end the scheduler of a home."""

from typing import TYPE_CHECKING

from rota.cli import common_flags as flag

if TYPE_CHECKING:
    from rota.server.background import Stopped


def down(home: flag.Home = None) -> None:
    """Stop the scheduler. Its jobs keep running without it until their leases expire.

    Example: rota down
    """
    from rota.cli import job_text
    from rota.server.background import stop
    from rota.wire.address import home_folder

    job_text.say(_told(stop(home_folder(home)), f"rota up --home {home}" if home else "rota up"))


def _told(found: "Stopped", up: str) -> str:
    from rota.cli import job_text

    head = f"Stopped the scheduler, process {found.pid}"
    if not found.jobs:
        return f"{head}."
    head += f"; {found.jobs} job{'s keep' if found.jobs != 1 else ' keeps'} running without it"
    if found.lease_left_seconds is None:
        return f"{head}."
    then = f"A job that has not ended by then is told to save and stop, and starts again after the next {up}."
    return f"{head} for {job_text.length(found.lease_left_seconds)}. {then}"
