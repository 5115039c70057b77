"""`rota compare`: the same jobs under several policies."""

from typing import Annotated, Any

import typer

from rota.cli import common_flags as flag
from rota.cli import completers
from rota.cli.output import say, say_notes, write_page
from rota.cli.setup import with_setup


@with_setup(without=("policy", "placer"), defaults={"trace": "demo"})
def compare(
    policies: Annotated[
        list[str],
        typer.Argument(help="Policies, as for sim --policy; A+B is policy A with placer B.", autocompletion=completers.policies),
    ],
    placer: Annotated[
        list[str] | None,
        typer.Option("--placer", help="Placers; every policy runs with each. Repeatable.", autocompletion=completers.placers),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds",
            parser=flag.number("--seeds", whole=True),
            metavar="N",
            help="Number of seeds. With more than one, results have paired 95% intervals.",
        ),
    ] = 1,
    workers: Annotated[
        int,
        typer.Option(
            "--workers", parser=flag.number("--workers", whole=True), metavar="N", help="Number of processes that simulate."
        ),
    ] = 1,
    html: flag.Html = None,
    debug: flag.Debug = False,
    output: flag.Output = "table",
    setup: dict[str, Any] = {},  # noqa: B006 - never used: the flags are always there
) -> None:
    """Simulate one trace under several policies and compare the results.

    Example: rota compare fifo tiresias srsf --trace philly-like --seeds 5 --html result.html
    """
    shaped = flag.shape(output)
    flag.may_write(html)
    from rota.api import compare as run

    with flag.progress_bars(len(policies) * max(len(placer or ()), 1) * seeds) as progress:
        whole = run(policies, placers=placer or (), seeds=seeds, workers=workers, progress=progress, **setup)
    say(shaped, whole, value=whole.to_dict())
    say_notes(whole)
    write_page(whole, html)
