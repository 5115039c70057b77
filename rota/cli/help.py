"""`rota help`: show the help of a command, and where to go next."""

from typing import Annotated

import typer

from rota.cli import completers

NEXT = """\
Where to go from here:

  Compare policies         docs/tutorial.md             rota compare fifo tiresias srsf --trace demo --html result.html
  Run my training script   docs/tutorial-training.md    rota submit --gpus 1 --progress session -- python train.py
  Write a policy           docs/write-a-policy.md       rota policy check ./mine.py:Mine
  Set up a cluster         docs/run-jobs.md             rota up --help
"""


def help(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="[COMMAND|next]", help="Command, or `next` for where to go from here.", autocompletion=completers.commands
        ),
    ] = None,
) -> None:
    """Show the help of a command. `rota help next` shows where to go from here.

    Example: rota help submit
    """
    if topic == "next":
        typer.echo(NEXT, nl=False)
        return
    from rota.cli.main import make_app

    words = [] if topic is None else [topic]
    make_app(words)([*words, "--help"], standalone_mode=False, prog_name="rota")
