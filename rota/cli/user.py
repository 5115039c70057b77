"""`rota user`: who may use a scheduler over the network, and with which role."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli import common_flags as flag
from rota.errors import OptionError

if TYPE_CHECKING:
    from rota.server.users_file import KnownUser

app = typer.Typer(help="Add, list and remove the users of a scheduler.", no_args_is_help=True, rich_markup_mode=None)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.", show_default=False)]
MAX_DAYS = 36_500.0


@app.command()
def add(
    name: Name,
    role: Annotated[str, typer.Option("--role", help="viewer, user or operator.")] = "user",
    token: Annotated[bool, typer.Option("--token/--no-token", help="Whether to make a token for clients elsewhere.")] = True,
    expires_days: Annotated[
        float | None,
        typer.Option(
            "--expires-days",
            parser=flag.number("--expires-days", like="90"),
            metavar="NUMBER",
            help="Days after which the token expires. Default: it does not.",
        ),
    ] = None,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Add a user or change their role, and make a token. The token is shown once; a new one replaces the last.

    A viewer reads. A user submits jobs and changes their own. An operator changes everything. With rota up --all-users, Unix
    users of the machine need no token: --no-token gives one of them another role.

    Example: rota user add ana --role operator
    """
    from rota.cli.output import say
    from rota.server.users_file import set_user
    from rota.wire.home import home_folder

    shaped = flag.shape(output)
    if expires_days is not None and not (token and 0 < expires_days <= MAX_DAYS):
        hint = "--expires-days 90" if token else "leave it out with --no-token"
        raise OptionError("is not a number of days from now.", field="--expires-days", value=expires_days, hint=hint)
    wanted = _role(role)
    made = set_user(home_folder(home), name, wanted, token=token, expires_days=expires_days)
    if shaped in ("json", "csv"):
        found = {"user": name, "role": wanted.value, "token": made}
        say(shaped, value=found, rows=[found])
        return
    typer.echo(f"{name} is {wanted}.")
    if made is not None:
        typer.echo(f"token    {made}")
        typer.echo("It is not shown again. On the user's machine: save it in a file of mode 600, then")
        typer.echo("  export ROTA_ADDRESS=https://THIS-MACHINE:7070 ROTA_TOKEN_FILE=FILE")


@app.command("list")
def list_users(home: flag.Home = None, output: flag.Output = "table") -> None:
    """List users with a role or a token."""
    from rota.cli.output import say
    from rota.server.users_file import read_users
    from rota.wire.home import home_folder

    users = read_users(home_folder(home))
    rows = [_row(users[name]) for name in sorted(users)]
    shaped = flag.shape(output)
    if not rows and shaped in ("table", "wide"):
        typer.echo("Only the owner of the home is known. To add a user: rota user add NAME")
        return
    say(shaped, value=rows, rows=rows, heads=("user", "role", "token", "expires_at", "changed_at"))


@app.command()
def revoke(name: Name, home: flag.Home = None, output: flag.Output = "table") -> None:
    """Make a user's token useless. The role stays, and so do the jobs."""
    from rota.server.users_file import revoke_token
    from rota.wire.home import home_folder

    _show_change(revoke_token(home_folder(home), name), f"The token of {name} is no longer accepted.", output)


@app.command()
def remove(name: Name, home: flag.Home = None, output: flag.Output = "table") -> None:
    """Remove a user: their token is no longer accepted, and they have the default role. Their jobs stay."""
    from rota.server.users_file import remove_user
    from rota.wire.home import home_folder

    _show_change(remove_user(home_folder(home), name), f"Removed {name}. Cancel their jobs: rota cancel JOB...", output)


@app.command()
def whoami(home: flag.Home = None, output: flag.Output = "table") -> None:
    """Show whom the scheduler takes you for, your role, and the tenants into which you may submit."""
    from rota.cli.output import say
    from rota.wire.client import connect

    found = connect(home).me().to_dict()
    if flag.shape(output) not in ("table", "wide"):
        say(flag.shape(output), value=found, rows=[{**found, "tenants": "; ".join(found["tenants"] or ())}])
        return
    runs_as = "the scheduler's own user" if found["uid"] is None else f"Unix user {found['uid']}"
    typer.echo(f"{found['name']}, {found['role']}; your jobs run as {runs_as}.")
    if found["tenants"] is not None:
        into = ", ".join(found["tenants"]) or "no tenant"
        usual = f" A job that names none belongs to {found['tenant']}." if found["tenant"] is not None else ""
        typer.echo(f"You may submit into {into}.{usual}")


def _show_change(user: "KnownUser", sentence: str, output: str) -> None:
    from rota.cli.output import say

    shaped = flag.shape(output)
    if shaped == "table":
        typer.echo(sentence)
    else:
        say(shaped, value=_row(user), rows=[_row(user)])


def _row(user: "KnownUser") -> dict[str, Any]:
    return {
        "user": user.name,
        "role": user.role.value,
        "token": user.has_token,
        "expires_at": _iso(user.expires_s),
        "changed_at": _iso(user.changed_s),
    }


def _iso(at_s: float | None) -> str | None:
    from datetime import UTC, datetime

    return None if at_s is None else datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")


def _role(text: str) -> Any:
    from rota.wire.actor import Role

    try:
        return Role(text)
    except ValueError:
        raise OptionError("is not a role.", field="--role", value=text, hint=f"--role {', '.join(Role)}") from None
