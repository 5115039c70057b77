"""`rota sim`: simulate one trace under one policy on one cluster."""

from typing import Annotated, Any

import typer

from rota.cli import common_flags as flag
from rota.cli.output import note_shape, say, say_notes, write_page
from rota.cli.setup import with_setup
from rota.model.counted import counted


@with_setup()
def sim(
    html: flag.Html = None,
    per_job: Annotated[bool, typer.Option("--per-job", help="Print the jobs too, with -o json or csv.")] = False,
    debug: flag.Debug = False,
    output: flag.Output = "table",
    setup: dict[str, Any] = {},  # noqa: B006 - never used: the flags are always there
) -> None:
    """Simulate a trace under a policy.

    Example: rota sim --trace philly-like --policy tiresias --cluster "8xV100 + 8xP100 + 8xK80"
    """
    shaped = flag.shape(output)
    flag.may_write(html)
    from rota.api import simulate
    from rota.report.comparison import Comparison

    with flag.progress_bar(setup["policy"]) as progress:
        result = simulate(progress=progress, **setup)
    whole = Comparison({setup["policy"]: [result]})
    if shaped == "csv" and per_job:
        say(shaped, rows=result.jobs)
    else:
        s = result.summary
        note = (
            f"simulated in {s.simulated_in_seconds:.1f} s, {counted(s.decisions, 'decision')}, {s.peak_memory_mb:.0f} MB "
            f"(seed {setup['seed']})"
            + (f", {result.trials}" if result.trials is not None else "")
            + (f", {result.predictions}" if result.predictions is not None else "")
            + (f"\n{result.tenants.table()}" if result.tenants is not None else "")
        )
        say(shaped, whole, value=result.to_dict(per_job=per_job), note=note)
    if per_job and shaped in ("table", "wide"):
        note_shape(f"--per-job does nothing with -o {shaped}: -o json or -o csv has the jobs")
    say_notes(whole)
    write_page(whole, html)
