"""Gavel's problems: how long one solve takes, against jobs, and whole simulations through the real core.

The instances are drawn here, of 26 kinds of job as different as Gavel's; with the reference data beside the checkout, `rota
policy solve` times its stored instances the same way.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from rota.api import simulate
from rota.beliefs.make_options import make_options
from rota.beliefs.rates import Rates
from rota.compose.registry import make_policy
from rota.model.cluster import Cluster
from rota.model.job import Demand
from rota.model.options import Kind, Options
from rota.model.units import FOREVER
from rota.model.view import Jobs, View

KINDS = 26
TYPES = ("V100", "P100", "K80")
SHARED = Path(__file__).resolve().parents[1].parent / "shared"


def rates(kinds: int, rng: np.random.Generator) -> Rates:
    """Kinds as different as Gavel's: K80s are 3 to 8 times slower than V100s, P100s up to twice; pairs lose 5 to 60 per cent."""
    table, pairs = {}, {}
    for kind in range(kinds):
        fast = float(np.exp(rng.uniform(0, 5)))
        for name, factor in zip(TYPES, (1.0, rng.uniform(0.5, 1.1), rng.uniform(0.12, 0.35)), strict=True):
            table[f"kind{kind}", name, 1] = fast * factor
    if kinds <= KINDS:
        for a in range(kinds):
            for b in range(a, kinds):
                for name in TYPES:
                    keep = rng.uniform(0.4, 0.95, 2)
                    alone = table[f"kind{a}", name, 1], table[f"kind{b}", name, 1]
                    pairs[f"kind{a}", f"kind{b}", name, 1] = (float(alone[0] * keep[0]), float(alone[1] * keep[1]))
    return Rates(table=table, pairs=pairs)


def crowd(jobs: int, kinds: int, *, colocation: bool = False, seed: int = 0) -> View:
    """Jobs of so many kinds on a third as many GPUs, as a scheduler would show them."""
    rng = np.random.default_rng(seed)
    each = max(jobs // 4, 1)
    cluster = Cluster.parse(" + ".join(f"{each}x{name}" for name in TYPES))
    options: Options = make_options(
        [Kind(f"kind{k}", Demand(1)) for k in range(kinds)], cluster, rates(kinds, rng), colocation=colocation
    )
    kind = np.arange(jobs) % kinds
    best = options.rate[options.best][kind]
    age = rng.uniform(0, 20_000, jobs)
    columns: dict[str, Any] = {
        "id": np.arange(jobs),
        "kind": kind,
        "gpus": np.ones(jobs, dtype=np.int64),
        "weight": np.ones(jobs),
        "submitted_s": 20_000 - np.sort(age)[::-1],
        "steps_total": best * 60 * 10 ** rng.uniform(1.5, 4, jobs),
        "steps_done": np.zeros(jobs),
        "as_of_s": np.full(jobs, 20_000.0),
        "first_run_s": np.full(jobs, np.nan),
        "deadline_s": np.full(jobs, FOREVER),
        "best_rate": best,
        "nominal_rate": best,
        "tenant": np.zeros(jobs, dtype=np.int64),
        "option": np.full(jobs, -1),
    }
    for name in ("run_seconds", "attained", "rate", "move_seconds"):
        columns[name] = np.zeros(jobs)
    columns["using"] = np.zeros(jobs, dtype=np.int64)
    table: Any = SimpleNamespace(**columns)
    return View(
        now_s=20_000.0,
        jobs=Jobs(table, np.arange(jobs), 20_000.0, options),
        options=options,
        cluster=cluster,
        capacity=np.full(len(TYPES), each),
        tenants=("",),
        history_gpu_seconds=np.empty(0),
        memory=None,
        seed=0,
        decision=1,
    )


SOLVES: tuple[tuple[str, int, int, bool], ...] = (
    ("max-min-fairness", 2_048, KINDS, False),
    ("max-min-fairness", 2_000, 2_000, False),
    ("max-min-fairness:colocation=true", 512, KINDS, True),
    ("max-min-fairness:colocation=true", 100_000, KINDS, True),
    ("max-min-fairness:water_filling=true", 512, KINDS, False),
    ("finish-time-fairness", 2_048, KINDS, False),
    ("makespan", 2_048, KINDS, False),
)


def solves() -> list[dict[str, Any]]:
    """CPU and wall milliseconds of one solve, the best of five; the first, which also warms caches, is not counted."""
    rows = []
    for policy, jobs, kinds, colocation in SOLVES:
        view = crowd(jobs, kinds, colocation=colocation)
        made = make_policy(policy)
        cpu, wall = _best(lambda view=view, made=made: made.allocate(View(**{**vars(view), "jobs": _fresh(view)})))
        rows.append({"what": f"solve {policy}, {jobs:,} jobs of {kinds:,} kinds", "cpu_ms": cpu, "wall_ms": wall})
    return rows


def _fresh(view: View) -> Jobs:
    """The same jobs, none of whose columns has been looked at."""
    return Jobs(view.jobs._table, view.jobs._rows, view.now_s, view.options)


def _best(act: Callable[[], Any], repeat: int = 5) -> tuple[float, float]:
    act()
    cpu, wall = [], []
    for _ in range(repeat):
        before = time.process_time(), time.perf_counter()
        act()
        cpu.append(time.process_time() - before[0])
        wall.append(time.perf_counter() - before[1])
    return round(1000 * min(cpu), 2), round(1000 * min(wall), 2)


def simulations() -> list[dict[str, Any]]:
    """Whole runs through the real core, under max-min fairness in Gavel's rounds: 120 jobs on 18 GPUs with the reference data's
    trace where it is there; 5,000 jobs, many of several GPUs, at an offered load of 0.9 on 108 GPUs."""
    rows = []
    short = SHARED / "expected/gavel/traces/single_s2_l3600_n120.trace"
    if short.is_file():
        rates = SHARED / "data/gavel/simulation_throughputs.json"
        few: dict[str, Any] = {"cluster": "6xV100 + 6xP100 + 6xK80", "profile": rates, "format": "gavel"}
        rows.append(_run("120 jobs of single_s2 on 18 GPUs", short, repeat=5, **few))
    many = {"cluster": "9x(4xV100) + 9x(4xP100) + 9x(4xK80)"}
    rows.append(_run("5,000 jobs at load 0.9 on 108 GPUs", "gavel:jobs=5000,load=0.9,multi=true,seed=0", **many))
    return rows


def _run(what: str, trace: Any, repeat: int = 1, **where: Any) -> dict[str, Any]:
    seconds, done = float("inf"), None
    for _ in range(repeat):
        before = time.process_time()
        done = simulate(trace, policy="max-min-fairness", preset="gavel", **where).summary
        seconds = min(seconds, time.process_time() - before)
    assert done is not None
    rounds = done.plans or 0
    return {"what": f"simulate {what}", "cpu_s": seconds, "rounds": rounds, "rounds_per_s": rounds / seconds}


POLICIES = {
    "isolated": "isolated",
    "fifo_perf": "fifo",
    "fifo_packed": "fifo:colocation=true",
    "allox": "allox",
    "max_min_fairness": "max-min-fairness:type_aware=false",
    "max_min_fairness_perf": "max-min-fairness",
    "max_min_fairness_packed": "max-min-fairness:colocation=true",
    "max_min_fairness_water_filling": "max-min-fairness:water_filling=true,type_aware=false",
    "max_min_fairness_water_filling_perf": "max-min-fairness:water_filling=true",
    "max_min_fairness_water_filling_packed": "max-min-fairness:water_filling=true,colocation=true",
    "finish_time_fairness": "finish-time-fairness:type_aware=false",
    "finish_time_fairness_perf": "finish-time-fairness",
    "finish_time_fairness_packed": "finish-time-fairness:colocation=true",
    "min_total_duration": "makespan:type_aware=false",
    "min_total_duration_perf": "makespan",
    "min_total_duration_packed": "makespan:colocation=true",
    "max_sum_throughput_perf": "max-throughput",
    "max_sum_throughput_normalized_by_cost_perf": "min-cost",
    "max_sum_throughput_normalized_by_cost_perf_SLOs": "min-cost:slo=true",
    "max_sum_throughput_normalized_by_cost_packed_SLOs": "min-cost:slo=true,colocation=true",
}
"""Gavel's names and ours."""


def results(data: Path, least: int = 0) -> list[dict[str, Any]]:
    """Gavel's own simulator, measured, against ours: with its preset, and as a real cluster would be (decisions at events, what
    moving costs). `data` is the folder of the reference data."""
    rows = []
    for row in json.loads((data / "expected/gavel/results.json").read_text()):
        if row["policy"] not in POLICIES or row["solver"] != "ECOS" or row["num_jobs"] < least:
            continue
        each = {name: row["num_gpus_per_server"][name] for name, gpus in row["cluster_spec"].items() if gpus}
        terms = {name: f"{row['cluster_spec'][name] // n}x({n}x{name.upper()})" for name, n in each.items()}
        flat = {name: f"{row['cluster_spec'][name]}x{name.upper()}" for name in each}
        cluster = " + ".join((terms if each[name] > 1 else flat)[name] for name in ("v100", "p100", "k80") if name in each)
        found: dict[str, Any] = {"part": "results", "trace": row["name"], "gavel": row["policy"], "jobs": row["num_jobs"]}
        found |= {"policy": POLICIES[row["policy"]], "gavel_jct": row["avg_jct"], "gavel_makespan": row["makespan"]}
        for label, preset in (("preset", "gavel"), ("plain", None)):
            before = time.process_time()
            done = simulate(
                data / "expected/gavel/traces" / row["trace"],
                policy=POLICIES[row["policy"]],
                cluster=cluster,
                preset=preset,
                profile=data / "data/gavel/simulation_throughputs.json",
                format="gavel",
            ).summary
            found[f"{label}_jct"], found[f"{label}_makespan"] = done.mean_jct_seconds, done.makespan_seconds
            found[f"{label}_suspensions"] = done.suspensions
            found[f"{label}_cpu_seconds"] = round(time.process_time() - before, 2)
        rows.append(found)
    return rows


def as_table(rows: list[dict[str, Any]]) -> str:
    """The rows as the documentation shows them."""
    lines = [
        "| trace | Gavel's policy | ours | JCT, h | with the preset | makespan | plain | suspensions |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        jct, span, plain = (
            f"{row[ours] / row[theirs] - 1:+.2%}"
            for ours, theirs in (("preset_jct", "gavel_jct"), ("preset_makespan", "gavel_makespan"), ("plain_jct", "gavel_jct"))
        )
        hours = f"{row['gavel_jct'] / 3600:.2f}"
        cells = (
            f"{row['trace']} ({row['jobs']})",
            row["gavel"],
            f"`{row['policy']}`",
            hours,
            jct,
            span,
            plain,
            row["plain_suspensions"],
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    for line in as_table(results(Path(sys.argv[1]))).splitlines():
        sys.stdout.write(line + "\n")
