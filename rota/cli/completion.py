"""`rota completion`: print a script with which a shell completes commands, flags and the names of jobs."""

from typing import Annotated

import typer

from rota.cli import common_flags as flag
from rota.cli import completers
from rota.cli.output import say
from rota.errors import UnknownNameError


def completion(
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="Shell.", autocompletion=completers.shells)],
    output: flag.Output = "table",
) -> None:
    """Print a script that completes commands, flags, policies and unfinished jobs in a shell.

    In bash, put this line into ~/.bashrc: source <(rota completion bash)

    Example: rota completion bash
    """
    shaped = flag.shape(output)
    if shell not in completers.SHELLS:
        raise UnknownNameError("completion for the shell", shell, completers.SHELLS, hint="rota completion bash")
    from typer._completion_shared import get_completion_script

    script = get_completion_script(prog_name="rota", complete_var=completers.VARIABLE, shell=shell)
    if shaped in ("json", "csv"):
        row = {"shell": shell, "script": script}
        say(shaped, value=row if shaped == "json" else None, rows=[row])
    else:
        typer.echo(script)
