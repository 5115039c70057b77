"""`rota up`: run the scheduler, in the foreground, in the background, or under systemd."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from rota.cli import common_flags as flag
from rota.cli.setup import with_live_setup
from rota.errors import OptionError

SYSTEM_UNIT = "/etc/systemd/system/rota.service"


@with_live_setup
def up(
    home: Annotated[
        str | None, typer.Option("--home", help="Directory for the scheduler's state. Default: see rota config.")
    ] = None,
    pretend: Annotated[
        str | None,
        typer.Option("--pretend", metavar="CLUSTER", help='Use pretend GPUs: "4xV100 + 2xK80". Default: the real GPUs.'),
    ] = None,
    listen: Annotated[
        list[str] | None,
        typer.Option(
            "--listen",
            metavar="ADDRESS",
            help="HOST:PORT or unix:PATH to listen on. Repeatable. Default: 127.0.0.1:7070.",
        ),
    ] = None,
    all_users: Annotated[
        bool, typer.Option("--all-users", help="Serve all users of this machine; each job runs as its user. Needs root.")
    ] = False,
    hide_names: Annotated[bool, typer.Option("--hide-names", help="Hide the names of jobs from other users.")] = False,
    tls_cert: Annotated[
        str | None, typer.Option("--tls-cert", metavar="PEM", help="Certificate chain: TCP connections then use TLS.")
    ] = None,
    tls_key: Annotated[str | None, typer.Option("--tls-key", metavar="PEM", help="Private key of the certificate.")] = None,
    lease_seconds: Annotated[
        float | None,
        typer.Option(
            "--lease-seconds",
            parser=flag.number("--lease-seconds"),
            metavar="NUMBER",
            help="How long jobs run without the scheduler, in s. Default: 86400; with --ray 300.",
        ),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Run in the background; stop with rota down.")] = False,
    systemd: Annotated[
        str | None,
        typer.Option("--systemd", metavar="PATH", help="Write a systemd unit with these flags to PATH; start nothing."),
    ] = None,
    system: Annotated[
        bool, typer.Option("--system", help="With --systemd: write a unit of the system, not of your user.")
    ] = False,
    log_mb: Annotated[
        float,
        typer.Option(
            "--log-mb", parser=flag.number("--log-mb", like="64"), metavar="NUMBER", help="Maximum size of a job's log, in MB."
        ),
    ] = 64.0,
    keep_history: Annotated[
        str,
        typer.Option(
            "--keep-history", metavar="DAYS", help="How long ended jobs, their events and logs are kept, like 90d; or forever."
        ),
    ] = "365d",
    mps: Annotated[
        str | None,
        typer.Option(
            "--mps", metavar="FOLDER", help="Run jobs under NVIDIA MPS. FOLDER is your control daemon's pipe directory."
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option("--ray", metavar="ADDRESS", help="Run jobs on this Ray cluster; auto for the one on this machine."),
    ] = None,
    insecure_ray: flag.InsecureRay = False,
    node_folder: Annotated[
        str | None,
        typer.Option(
            "--node-dir",
            metavar="DIR",
            help="With --ray: directory on a local disk. Default: ~/.local/state/rota/nodes.",
        ),
    ] = None,
    health_check: Annotated[
        str | None,
        typer.Option(
            "--health-check", metavar="CMD", help="Command that must pass on a node before jobs start there. No shell runs it."
        ),
    ] = None,
    health_check_seconds: Annotated[
        float | None,
        typer.Option(
            "--health-check-seconds",
            parser=flag.number("--health-check-seconds", like="30"),
            metavar="NUMBER",
            help="Time limit of a health check, in s. Default: 30.",
        ),
    ] = None,
    health_check_every: Annotated[
        str | None,
        typer.Option("--health-check-every", metavar="LENGTH", help="Interval between checks of a node, like 10m. Default: 10m."),
    ] = None,
    journal: Annotated[
        str | None,
        typer.Option("--journal", metavar="URL", help="PostgreSQL database for the journal. Default: a SQLite file in the home."),
    ] = None,
    standby: Annotated[
        bool, typer.Option("--standby", help="Wait while another scheduler is leader, and take over when it goes away.")
    ] = False,
    forget: Annotated[
        list[str] | None,
        typer.Option(
            "--unset", metavar="FLAG", help="Forget the value that the home keeps for FLAG; all for every flag. Repeatable."
        ),
    ] = None,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Adopt a copied home whose original is gone: jobs resume from checkpoints.")
    ] = False,
    new_identity: Annotated[
        bool, typer.Option("--new-identity", help="Give a copied home a new identity; attempts of the original are not touched.")
    ] = False,
    output: Annotated[
        str, typer.Option("-o", "--output", help="Output format with --detach or --systemd: table, json or csv.")
    ] = "table",
    *,
    setup: dict[str, Any],
) -> None:
    """Run the scheduler until Ctrl-C. Its jobs keep running without it until their leases expire (--lease-seconds).

    The home keeps the flags that rota sim has too: a start without such a flag uses the value that was given last. A new home
    starts with the policy tiresias.

    Example: rota up --pretend "4xV100 + 2xK80" --policy tiresias
    """
    from rota.cli.moments import seconds_of
    from rota.live.node_health import health_flags
    from rota.server.serve import ServeOptions, check_options, check_texts, serve
    from rota.wire.home import home_folder, other_owner

    shaped = flag.shape(output)
    if shaped != "table" and not detach and systemd is None:
        raise OptionError("is for --detach and --systemd.", field="-o", value=output, hint="rota up --detach -o json")
    place = home_folder(home)
    if whose := other_owner(place):
        raise OptionError(f"{whose}.", field="--home", hint="--home with a folder of yours")
    if system and systemd is None:
        raise OptionError("goes with --systemd.", field="--system", hint=f"rota up --systemd {SYSTEM_UNIT} --system")
    options = ServeOptions(
        home=place,
        pretend=pretend,
        listen=tuple(listen or ()),
        all_users=all_users,
        hide_names=hide_names,
        tls_cert=Path(tls_cert).expanduser().absolute() if tls_cert is not None else None,
        tls_key=Path(tls_key).expanduser().absolute() if tls_key is not None else None,
        given=setup,
        forget=tuple(forget or ()),
        health=health_flags(health_check, health_check_seconds, seconds_of(health_check_every, "--health-check-every")),
        lease_seconds=lease_seconds,
        log_mb=log_mb,
        keep_days=_days_kept(keep_history),
        mps=mps,
        ray=ray,
        insecure_ray=insecure_ray,
        node_folder=node_folder,
        journal=journal,
        standby=standby,
        adopt=adopt,
        new_identity=new_identity,
    )
    if detach or systemd is not None:
        if detach and systemd is not None:
            raise OptionError("does not go with --systemd.", field="--detach", hint="systemd starts it in the background itself")
        if systemd is not None and (adopt or new_identity):
            flag_given = "--adopt" if adopt else "--new-identity"
            raise OptionError("is for one start.", field=flag_given, hint=f"rota up {flag_given} once, then --systemd without it")
        if systemd is not None and ray is not None:  # the cluster may not exist yet
            check_texts(options)
        else:
            check_options(options, partial(typer.echo, err=True)).driver.close()
        _elsewhere(place, systemd, shaped, system=system)
        return
    serve(options, typer.echo)


def _days_kept(text: str) -> float:
    """Return a number of days from a text like `90d`, or infinity for `forever`."""
    from rota.model.units import FOREVER
    from rota.wire.job_filter import whole_days

    return FOREVER if text == "forever" else whole_days(text, "--keep-history", "365d, or --keep-history forever")


def _elsewhere(home: Path, unit: str | None, shaped: str, *, system: bool) -> None:
    """Start the same command in the background, or write a systemd unit for it."""
    from rota.cli.output import say
    from rota.server.background import address_of, start_in_background
    from rota.server.systemd_unit import system_unit, user_unit

    arguments = ["up", *_without(sys.argv[2:]), "--home", str(home)]
    if unit is None:
        said = start_in_background(home, arguments)
        if shaped in ("json", "csv"):
            found = {"home": str(home), **address_of(home, said)}
            say(shaped, value=found, rows=[found])
        else:
            typer.echo(said, nl=False)
        return
    path = Path(unit).expanduser()
    if not path.parent.is_dir():
        raise OptionError(
            f"the folder {path.parent} does not exist.", field="--systemd", value=unit, hint=f"mkdir -p {path.parent}"
        )
    try:
        path.write_text((system_unit if system else user_unit)(home, arguments, Path.cwd()), encoding="utf-8")
    except OSError as problem:
        raise OptionError(f"cannot be written: {problem.strerror}.", field="--systemd", value=unit, hint="another path") from None
    if shaped in ("json", "csv"):
        say(shaped, value={"unit": str(path)}, rows=[{"unit": str(path)}])
        return
    if system:
        typer.echo(f"Wrote {path}. Next, as root: systemctl daemon-reload && systemctl enable --now {path.name}")
        return
    typer.echo(f"Wrote {path}. Next: systemctl --user enable --now {path.name}")
    typer.echo("To keep it running after you log out, once: loginctl enable-linger")


def _without(arguments: list[str]) -> list[str]:
    """Return the arguments without --detach, --systemd, --system, --home and -o."""
    kept, skip = [], False
    for word in arguments:
        if skip:
            skip = False
        elif word in ("--systemd", "--home", "-o", "--output"):
            skip = True
        elif word not in ("--detach", "--system") and not word.startswith(("--systemd=", "--home=", "--output=", "-o")):
            kept.append(word)
    return kept
