"""`rota`: finds the command, and turns every error into one clear line and a next step."""

import os
import sys
from typing import Annotated, Any

import typer

from rota import __version__
from rota.cli import check, compare, demo, policy, profile, sim, sweep, trace
from rota.errors import InputError, RotaError

app = typer.Typer(
    name="rota",
    help="A scheduler for shared clusters of unequal GPUs: simulate, compare and check policies.",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

# The command-line library's own errors: what was typed cannot be understood.
UsageError: Any = typer.BadParameter.__base__
ClickError: Any = UsageError.__base__


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rota {__version__}")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """A scheduler for shared clusters of unequal GPUs: simulate, compare and check policies."""


app.command("sim")(sim.sim)
app.command("compare")(compare.compare)
app.command("sweep")(sweep.sweep)
app.command("demo")(demo.demo)
app.command("check")(check.check)
app.add_typer(policy.app, name="policy")
app.add_typer(trace.app, name="trace")
app.add_typer(profile.app, name="profile")


def main() -> None:
    """Exit codes: 0 ok, 1 it failed, 2 you mistyped."""
    try:
        code = app(standalone_mode=False, prog_name="rota")
        sys.exit(code if isinstance(code, int) else 0)
    except InputError as error:
        _fail(error.message, error.hint or "rota --help", 2)
    except RotaError as error:
        _fail(error.message, error.hint or "rota --help", 1)
    except typer.Abort:
        _fail("Stopped.", "the same command again", 130)
    except ClickError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # nothing was asked for: the help is the answer
            typer.echo(error.format_message())
            sys.exit(0)
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "rota"
        _fail(" ".join(error.format_message().split()), f"{path} --help", 2)
    except KeyboardInterrupt:
        _fail("Stopped.", "the same command again", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _fail(message: str, hint: str, code: int) -> None:
    sys.stderr.write(f"{message}\nTry: {hint}\n")
    sys.exit(code)
