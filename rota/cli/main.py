"""`rota`: find the command, run it, and print every error as one line and a next step."""

import difflib
import os
import re
import sys
import warnings
from importlib import import_module
from typing import Annotated, Any

import typer

from rota import __version__
from rota.cli.completers import words_to_complete
from rota.cli.quick import Quick, QuickGroup
from rota.errors import DEBUG, AssumptionWarning, InputError, PolicyError, RotaError, UnreachableError

COMMANDS = {
    "up": "up",
    "down": "down",
    "submit": "submit",
    "jobs": "jobs",
    "status": "status",
    "nodes": "nodes",
    "tenants": "tenants",
    "show": "show_job",
    "why": "why",
    "history": "history",
    "report": "report",
    "export": "export",
    "logs": "logs",
    "cancel": "cancel",
    "hold": "hold",
    "release": "release",
    "suspend": "suspend",
    "resume": "resume",
    "requeue": "requeue",
    "change": "change",
    "wait": "wait",
    "mcp": "mcp",
    "drain": "drain",
    "undrain": "undrain",
    "remove": "remove",
    "reserve": "reserve",
    "reservations": "reservations",
    "unreserve": "unreserve",
    "sim": "sim",
    "compare": "compare",
    "sweep": "sweep",
    "reproduce": "reproduce",
    "fidelity": "fidelity",
    "demo": "demo",
    "check": "check",
    "doctor": "doctor",
    "config": "config",
    "completion": "completion",
    "slurm": "slurm",
    "help": "help",
}
"""Command -> the file with a function of its name."""

GROUPS = {"policy": "policy", "trace": "trace", "profile": "profile", "user": "user"}
"""Command with commands below it -> the file with its `app`."""

# Errors of the command-line library: the command line cannot be parsed.
UsageError: Any = typer.BadParameter.__base__
ClickError: Any = UsageError.__base__


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rota {__version__}")
        raise typer.Exit()


def root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """A scheduler for shared clusters of unequal GPUs: run jobs; simulate, compare and check policies."""


def make_app(words: list[str]) -> typer.Typer:
    """Build the commands. If one is named, only that one is loaded: the others would take half the time of a fast command."""
    app = typer.Typer(
        name="rota",
        cls=QuickGroup,
        help=root.__doc__,
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.callback()(root)
    every = COMMANDS | GROUPS
    wanted = {words[0]} if words and words[0] in every else set(every)
    for name in (name for name in every if name in wanted):
        module = import_module(f"rota.cli.{every[name]}")
        if name in GROUPS:
            app.add_typer(module.app, name=name)
        else:
            app.command(name, cls=getattr(module, "COMMAND", Quick))(getattr(module, name))
    return app


def main() -> None:
    """Run the command. Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 no scheduler can be reached."""
    warnings.simplefilter("ignore", AssumptionWarning)  # the commands print assumptions as notes
    try:
        code = make_app(sys.argv[1:] or words_to_complete())(standalone_mode=False, prog_name="rota")
        sys.exit(code if isinstance(code, int) else 0)
    except InputError as error:
        _fail(error.message, error.hint or "rota --help", 2, error)
    except UnreachableError as error:
        _fail(error.message, error.hint or "rota up · rota doctor", 3)
    except PolicyError as error:
        more = "" if os.environ.get(DEBUG) or error.__cause__ is None else "--debug for the traceback, or "
        _fail(error.message, more + (error.hint or "rota policy check"), 1, error)
    except RotaError as error:
        _fail(error.message, error.hint or "rota --help", 1, error)
    except typer.Abort:
        _fail("Stopped.", "the same command again", 130)
    except ClickError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # no command was given: the help has been printed
            typer.echo(error.format_message())
            sys.exit(0)
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "rota"
        said = " ".join(error.format_message().split())
        unknown = re.match(r"No such command '([^']*)'\.", said) if path == "rota" else None
        near = _nearest_command(unknown[1]) if unknown else ""
        _fail(f"{unknown[0]} Closest: {near}." if unknown and near else said, f"{path} {near} --help".replace("  ", " "), 2)
    except KeyboardInterrupt:
        _fail("Stopped.", "the same command again", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _nearest_command(word: str) -> str:
    """Return a command with a similar name or the same beginning; an empty text if there is none."""
    known = [*COMMANDS, *GROUPS]
    near = difflib.get_close_matches(word.lower(), known, n=1)
    return near[0] if near else next((each for each in known if word.startswith(each)), "")


def _clean(text: str) -> str:
    """Remove control characters from a message. It may quote text of other users, such as the name of a job."""
    return "".join(sign if sign.isprintable() or sign == "\n" else "?" for sign in text)


def _fail(message: str, hint: str, code: int, error: BaseException | None = None) -> None:
    if error is not None and os.environ.get(DEBUG):
        from rota.compose.policy_faults import fault_traceback

        sys.stderr.write(fault_traceback(error))
    sys.stderr.write(f"{_clean(message)}\nTry: {_clean(hint)}\n")
    sys.exit(code)
