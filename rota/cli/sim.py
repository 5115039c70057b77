"""`rota sim`: one trace, one policy, one cluster."""

from typing import Annotated

import typer

from rota.cli import options as flag


def sim(
    trace: flag.Trace,
    policy: Annotated[
        str, typer.Option("--policy", help="NAME[:key=value,...], A+B for a placer too, or ./mine.py:Mine.")
    ] = "fifo",
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
    launch_seconds: flag.Launch = None,
    checkpoint_seconds: flag.Checkpoint = None,
    restore_seconds: flag.Restore = None,
    checkpoint_every_seconds: flag.Every = None,
    spread_penalty: flag.Spread = None,
    node_mtbf_seconds: flag.Mtbf = None,
    node_repair_seconds: flag.Repair = None,
    variability: Annotated[str | None, typer.Option("--variability", help="Per-GPU variability (planned).")] = None,
    per_job: Annotated[bool, typer.Option("--per-job", help="With -o json: one row per job too.")] = False,
    output: flag.Output = "table",
) -> None:
    """Simulate a trace under a policy.

    Example: rota sim --trace philly-like --policy tiresias --cluster "8xV100 + 8xP100 + 8xK80"
    """
    shaped = flag.shape(output)
    flag.not_yet("--variability", variability)
    from rota.api import simulate

    with flag.progress_bar(policy) as progress:
        result = simulate(
            trace,
            policy=policy,
            cluster=cluster,
            placer=placer,
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
            launch_seconds=launch_seconds,
            checkpoint_seconds=checkpoint_seconds,
            restore_seconds=restore_seconds,
            checkpoint_every_seconds=checkpoint_every_seconds,
            spread_penalty=spread_penalty,
            node_mtbf_seconds=node_mtbf_seconds,
            node_repair_seconds=node_repair_seconds,
        )
    if shaped == "json":
        import json

        typer.echo(json.dumps(result.to_dict(per_job=per_job)))
        return
    from rich.console import Console

    from rota.cli.tables import footing, results_table

    console = Console()
    console.print(results_table([result]))
    console.print(footing(result), highlight=False, soft_wrap=True)
    s = result.summary
    console.print(
        f"simulated in {s.simulated_in_seconds:.1f} s, {s.decisions:,} decisions, {s.peak_memory_mb:.0f} MB (seed {seed})",
        highlight=False,
        soft_wrap=True,
        style="dim",
    )
