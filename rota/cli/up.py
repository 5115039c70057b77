"""`rota up`: the scheduler on this machine, in the foreground."""

import os
from pathlib import Path
from typing import Annotated

import typer

from rota.cli import options as flag
from rota.cli import setup


def up(
    home: Annotated[str | None, typer.Option("--home", help="Where its state lives; $ROTA_HOME, or ~/.rota.")] = None,
    pretend: Annotated[
        str | None, typer.Option("--pretend", metavar="CLUSTER", help='Made-up GPUs instead of real ones: "4xV100 + 2xK80".')
    ] = None,
    listen: Annotated[str, typer.Option("--listen", help="HOST:PORT on loopback, or unix:PATH.")] = "127.0.0.1:7070",
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy", help="As for sim: NAME[:key=value,...], or ./mine.py:Mine; else what this home had last, else tiresias."
        ),
    ] = None,
    placer: setup.Placer = None,
    round_seconds: Annotated[
        float | None,
        typer.Option(
            "--round-seconds", parser=flag.number("--round-seconds"), metavar="NUMBER", help="Decide at every multiple too."
        ),
    ] = None,
    lease_seconds: Annotated[
        float,
        typer.Option(
            "--lease-seconds", parser=flag.number("--lease-seconds"), metavar="NUMBER", help="Jobs run on so long alone."
        ),
    ] = 300.0,
    log_mb: Annotated[
        float,
        typer.Option(
            "--log-mb", parser=flag.number("--log-mb", like="64"), metavar="NUMBER", help="What the log of a job may take."
        ),
    ] = 64.0,
    wait_for_place: setup.WaitForPlace = False,
    cordon_slower_than: Annotated[
        float | None,
        typer.Option(
            "--cordon-slower-than",
            parser=flag.number("--cordon-slower-than", like="1.5"),
            metavar="NUMBER",
            help="Take GPUs out of service that prove to take so many times as long as others.",
        ),
    ] = None,
) -> None:
    """Run the scheduler here until Ctrl-C; the jobs go on without it, for as long as their lease.

    Example: rota up --pretend "4xV100 + 2xK80" --policy tiresias
    """
    from rota.server.serve import ServeOptions, serve

    place = Path(home or os.environ.get("ROTA_HOME") or "~/.rota").expanduser().resolve()
    serve(
        ServeOptions(
            home=place,
            pretend=pretend,
            listen=listen,
            policy=policy,
            placer=placer,
            round_seconds=round_seconds,
            lease_seconds=lease_seconds,
            wait_for_place=wait_for_place,
            cordon_slower_than=cordon_slower_than,
            log_mb=log_mb,
        ),
        typer.echo,
    )
