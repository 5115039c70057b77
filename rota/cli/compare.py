"""`rota compare`: the same trace under several policies."""

from typing import Annotated

import typer

from rota.cli import options as flag


def compare(
    policies: Annotated[list[str], typer.Argument(help="Policies as for sim --policy; A+B is policy A with placer B.")],
    trace: flag.Trace = "demo",
    cluster: flag.Cluster = flag.CLUSTER,
    placer: flag.Placer = None,
    preset: flag.Preset = None,
    profile: flag.Profile = None,
    format: flag.Format = "auto",
    where: flag.Where = None,
    first: flag.First = None,
    jobs: flag.Window = None,
    drop_oversized: flag.Drop = False,
    decide: flag.Decide = None,
    round_seconds: flag.Round = None,
    seed: flag.Seed = 0,
    seeds: Annotated[int | None, typer.Option("--seeds", help="Several seeds with intervals (planned).")] = None,
    html: Annotated[str | None, typer.Option("--html", help="One self-contained page (planned).")] = None,
    output: flag.Output = "table",
) -> None:
    """Compare policies on one trace.

    Example: rota compare fifo tiresias srsf --trace philly-like
    """
    shaped = flag.shape(output)
    flag.not_yet("--seeds", seeds)
    flag.not_yet("--html", html)
    from rota.api import simulate

    results = []
    for policy in policies:
        with flag.progress_bar(policy) as progress:
            results.append(
                simulate(
                    trace,
                    policy=policy,
                    cluster=cluster,
                    placer=None if "+" in policy else placer,
                    preset=preset,
                    profile=profile,
                    format=format,
                    where=flag.filters(where),
                    first=first,
                    jobs=flag.window(jobs),
                    drop_oversized=drop_oversized,
                    decide=decide,
                    round_seconds=round_seconds,
                    seed=seed,
                    progress=progress,
                )
            )
    if shaped == "json":
        import json

        typer.echo(json.dumps([result.to_dict() for result in results]))
        return
    from rich.console import Console

    from rota.cli.tables import footing, results_table

    console = Console()
    console.print(results_table(results))
    console.print(footing(results[0]), highlight=False, soft_wrap=True)
