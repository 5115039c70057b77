"""Gavel's problems: how long one solve takes, against jobs, and whole simulations through the real core.

The instances are drawn here, with Gavel's 26 kinds of job as the built-in catalogue knows them; with the reference data beside the
checkout, `rota policy solve` times its stored instances the same way.
"""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from rota.api import simulate
from rota.beliefs.options import make_options
from rota.beliefs.rates import Rates
from rota.compose.catalogue import make_policy
from rota.model.cluster import Cluster
from rota.model.options import Kind, Options
from rota.model.units import FOREVER
from rota.model.view import Jobs, View

KINDS = 26
TYPES = ("V100", "P100", "K80")


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


def crowd(jobs: int, kinds: int, *, packing: bool = False, seed: int = 0) -> View:
    """Jobs of so many kinds on a third as many GPUs, as a scheduler would show them."""
    rng = np.random.default_rng(seed)
    each = max(jobs // 4, 1)
    cluster = Cluster.parse(" + ".join(f"{each}x{name}" for name in TYPES))
    options: Options = make_options([Kind(f"kind{k}", 1, ()) for k in range(kinds)], cluster, rates(kinds, rng), packing=packing)
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
        "tenant": np.zeros(jobs, dtype=np.int64),
        "option": np.full(jobs, -1),
    }
    for name in ("run_seconds", "attained", "rate", "move_seconds"):
        columns[name] = np.zeros(jobs)
    columns["using"] = np.zeros(jobs, dtype=np.int64)
    table: Any = SimpleNamespace(**columns)
    return View(
        now_s=20_000.0,
        jobs=Jobs(table, np.arange(jobs), 20_000.0),
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
    ("max-min-fairness:packing=true", 512, KINDS, True),
    ("max-min-fairness:packing=true", 100_000, KINDS, True),
    ("max-min-fairness:water_filling=true", 512, KINDS, False),
    ("finish-time-fairness", 2_048, KINDS, False),
    ("makespan", 2_048, KINDS, False),
)


def solves() -> list[dict[str, Any]]:
    """CPU and wall milliseconds of one solve, the best of five; the first, which also warms caches, is not counted."""
    rows = []
    for policy, jobs, kinds, packing in SOLVES:
        view = crowd(jobs, kinds, packing=packing)
        made = make_policy(policy)
        cpu, wall = _best(lambda view=view, made=made: made.allocate(View(**{**vars(view), "jobs": _fresh(view)})))
        rows.append({"part": "solve", "policy": policy, "jobs": jobs, "kinds": kinds, "cpu_ms": cpu, "wall_ms": wall})
    return rows


def _fresh(view: View) -> Jobs:
    """The same jobs, none of whose columns has been looked at."""
    return Jobs(view.jobs._table, view.jobs._rows, view.now_s)


def _best(act: Callable[[], Any], repeat: int = 5) -> tuple[float, float]:
    act()
    cpu, wall = [], []
    for _ in range(repeat):
        before = time.process_time(), time.perf_counter()
        act()
        cpu.append(time.process_time() - before[0])
        wall.append(time.perf_counter() - before[1])
    return round(1000 * min(cpu), 2), round(1000 * min(wall), 2)


def continuous() -> list[dict[str, Any]]:
    """5,000 jobs, many of several GPUs, arriving at an offered load of 0.9 on 108 GPUs, under max-min fairness in Gavel's rounds."""
    before = time.process_time()
    done = simulate(
        "gavel:jobs=5000,load=0.9,multi=true,seed=0",
        policy="max-min-fairness",
        cluster="9x(4xV100) + 9x(4xP100) + 9x(4xK80)",
        preset="gavel",
    )
    seconds = time.process_time() - before
    rounds = done.summary.rounds
    return [
        {
            "part": "continuous",
            "jobs": 5000,
            "rounds": rounds,
            "cpu_seconds": round(seconds, 1),
            "rounds_per_second": round(rounds / seconds),
            "mean_jct_hours": round((done.summary.mean_jct_seconds or 0.0) / 3600, 1),
        }
    ]
