"""`rota policy`: list, show, check and set policies and placers."""

import dataclasses
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli import common_flags as flag
from rota.cli import completers
from rota.cli.output import say

if TYPE_CHECKING:
    from rota.sim.conformance import Finding

app = typer.Typer(help="List, show, check and set policies and placers.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_(output: flag.Output = "table") -> None:
    """List every policy and placer."""
    shaped = flag.shape(output)
    from rota.compose.registry import PLACER_REGISTRY, POLICY_REGISTRY

    rows = [
        {"name": name, "kind": registry.what, "about": _about(registry.find(name))}
        for registry in (POLICY_REGISTRY, PLACER_REGISTRY)
        for name in registry.names()
    ]
    say(shaped, rows=rows)


@app.command("show")
def show(
    name: Annotated[
        str, typer.Argument(help="Policy or placer, or ./mine.py:Mine.", autocompletion=completers.policies_and_placers)
    ],
    output: flag.Output = "table",
) -> None:
    """Show what a policy or placer does, and its options."""
    shaped = flag.shape(output)
    from rota.compose.docstrings import field_docstrings
    from rota.compose.option_syntax import ParsedName
    from rota.compose.registry import PLACER_REGISTRY, POLICY_REGISTRY

    spelled = ParsedName.parse(name, "policy").name
    registry = PLACER_REGISTRY if spelled in PLACER_REGISTRY.names() else POLICY_REGISTRY
    kind = registry.find(spelled)
    texts = field_docstrings(kind)
    options = [
        {"option": f.name, "default": _default(f), "about": " ".join(texts.get(f.name, "").split())}
        for f in (dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ())
        if f.init
    ]
    if shaped in ("json", "csv"):
        whole = {"name": spelled, "kind": registry.what, "about": _about(kind), "options": options}
        say(shaped, value=whole if shaped == "json" else None, rows=options)
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console.print(f"{spelled}: {_about(kind)}", highlight=False)
    if options:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for column in ("OPTION", "DEFAULT", "ABOUT"):
            table.add_column(column)
        for row in options:
            table.add_row(row["option"], str(row["default"]), row["about"])
        console.print(table)


@app.command("check")
def check(
    name: Annotated[
        str, typer.Argument(help="Policy or placer, such as ./mine.py:Mine.", autocompletion=completers.policies_and_placers)
    ],
    seeds: Annotated[
        int, typer.Option("--seeds", parser=flag.number("--seeds", whole=True), metavar="N", help="Number of random workloads.")
    ] = 20,
    limit_seconds: Annotated[
        float,
        typer.Option(
            "--limit-seconds",
            parser=flag.number("--limit-seconds"),
            metavar="S",
            help="Time limit for each property, in seconds.",
        ),
    ] = 60.0,
    output: flag.Output = "table",
) -> None:
    """Run the property suite on a policy or a placer: determinism, purity, capacity, every job ends."""
    shaped = flag.shape(output)
    from rota.api import check as run_checks

    def show_finding(finding: "Finding") -> None:
        if shaped not in ("json", "csv"):
            typer.echo(f"{'ok  ' if finding.holds else 'FAIL'}  {finding.name}{': ' + finding.story if finding.story else ''}")

    findings = run_checks(name, seeds=seeds, limit_seconds=limit_seconds, progress=show_finding)
    failed = [finding for finding in findings if not finding.holds]
    if shaped in ("json", "csv"):
        say(shaped, rows=[dataclasses.asdict(finding) for finding in findings])
    else:
        typer.echo(f"{len(findings) - len(failed)} of {len(findings)} properties hold over {seeds} workloads.")
    if failed:
        raise typer.Exit(1)


@app.command("set")
def set_(
    name: Annotated[
        str,
        typer.Argument(
            help="Policy: NAME[:key=value,...], A+B for placer B, or ./mine.py:Mine.", autocompletion=completers.policies
        ),
    ],
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Replace the policy of a running scheduler, without a restart.

    The new policy is called once first. If that call fails, the present policy stays.

    Example: rota policy set tiresias:thresholds=3600
    """
    shaped = flag.shape(output)
    from rota.wire.client import connect

    client = connect(home)
    before, after = client.status(), client.set_policy("+".join(_absolute(each) for each in name.split("+")))
    if shaped in ("json", "csv"):
        say(shaped, value=after.to_dict() if shaped == "json" else None, rows=[{"policy": after.policy, "placer": after.placer}])
        return
    typer.echo(f"The policy is {after.policy} with placer {after.placer}; it was {before.policy} with {before.placer}.")


def _absolute(spelled: str) -> str:
    """Make a policy's path absolute. The scheduler runs in another folder."""
    from rota.compose.option_syntax import ParsedName

    if ":" not in spelled and not spelled.endswith(".py"):
        return spelled
    found = ParsedName.parse(spelled, "policy")
    path, colon, attribute = found.name.partition(":")
    head = f"{Path(path).absolute()}{colon}{attribute}" if path.endswith(".py") else found.name
    options = {key: str(Path(text).absolute()) if Path(text).is_file() else text for key, text in found.options.items()}
    return head + ("" if not options else ":" + ",".join(f"{key}={text}" for key, text in options.items()))


@app.command("solve")
def solve(
    instance: Annotated[str, typer.Argument(help="JSON file with cluster_spec, worker_types and jobs.")],
    policy: Annotated[str, typer.Option("--policy", help="Policy, as for rota sim.")] = "max-min-fairness",
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="PATH", help="Table with rates of pairs, for colocation.")
    ] = None,
    debug: flag.Debug = False,
    output: flag.Output = "table",
) -> None:
    """Compute one allocation of a stored instance: its objective, the solver's time, and each job's shares of time."""
    shaped = flag.shape(output)
    from rota.compose.registry import make_placer, make_policy
    from rota.compose.solve import read_instance
    from rota.compose.solve import solve as solve_instance

    solved = solve_instance(read_instance(instance, profile), make_policy(policy), make_placer("packed"))
    rows = [{**share, "jobs": "+".join(map(str, share["jobs"]))} for share in solved.shares]
    if shaped != "table":
        say(shaped, value=dataclasses.asdict(solved) if shaped == "json" else None, rows=rows)
        return
    from rich.console import Console

    from rota.report.result import plain_table

    value = "none of its own" if solved.objective is None else f"{solved.objective:.6g}"
    Console().print(f"objective {value}, solved in {1000 * solved.solve_seconds:.1f} ms", highlight=False)
    if solved.prices is not None:
        Console().print("prices " + ", ".join(f"{name} {price:.4g}" for name, price in solved.prices.items()), highlight=False)
    for job, note in solved.notes.items():
        Console().print(f"job {job}: {note}", highlight=False)
    rows = [row for row in rows if row["share"] >= 5e-5]
    typer.echo(plain_table(("JOBS", "ACCELERATOR", "SHARE"), [(r["jobs"], r["accelerator"], f"{r['share']:.4f}") for r in rows]))


def _about(kind: type) -> str:
    return (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ")


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default is not dataclasses.MISSING:
        return list(field.default) if isinstance(field.default, tuple) else field.default
    return None
