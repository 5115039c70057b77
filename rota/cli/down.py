"""`rota down`: end the scheduler of a home."""

from rota.cli import options as flag


def down(home: flag.Home = None) -> None:
    """Stop the scheduler. Its jobs go on without it, for as long as their lease.

    Example: rota down
    """
    from rota.cli import words
    from rota.server.background import stop
    from rota.wire.address import home_folder

    process, jobs = stop(home_folder(home))
    left = f"; {jobs} job{'s' * (jobs != 1)} go{'es' * (jobs == 1)} on for as long as the lease" if jobs else ""
    words.say(f"Stopped the scheduler, process {process}{left}.")
