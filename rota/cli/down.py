"""`rota down`: stop the scheduler of a home."""

from typing import TYPE_CHECKING

from rota.cli import common_flags as flag
from rota.model.counted import counted

if TYPE_CHECKING:
    from rota.server.background import Stopped


def down(home: flag.Home = None, output: flag.Output = "table") -> None:
    """Stop the scheduler. Its jobs keep running without it until their leases expire.

    Example: rota down
    """
    shaped = flag.shape(output)
    from rota.cli import job_text
    from rota.server.background import stop
    from rota.wire.address import home_folder

    found = stop(home_folder(home))
    if shaped in ("json", "csv"):
        from rota.cli.output import say

        say(shaped, value=found._asdict(), rows=[found._asdict()])
    else:
        job_text.say(_format_stopped(found, f"rota up --home {home}" if home else "rota up"))


def _format_stopped(found: "Stopped", up: str) -> str:
    from rota.cli import job_text

    head = f"Stopped the scheduler, process {found.pid}"
    if not found.jobs:
        return f"{head}."
    head += f"; {counted(found.jobs, 'job')} {'keeps' if found.jobs == 1 else 'keep'} running without it"
    if found.lease_left_seconds is None:
        return f"{head}."
    then = f"Jobs that have not ended by then get SIGTERM, save and stop. They start again after the next {up}."
    return f"{head} for {job_text.length(found.lease_left_seconds)}. {then}"
