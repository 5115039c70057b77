"""Properties of any set-up, checked against the record of the physics and against the core after every step."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rota.api import PreparedStudy, prepare
from rota.beliefs.move_costs import MemoryCosts
from rota.core.scheduler import Scheduler
from rota.core.state.node_table import NodeTable
from rota.core.validate import validate
from rota.model.commands import Suspend, SuspendKind
from rota.model.units import MILLI
from rota.report.metrics import summarise
from rota.sim.record import Record
from tests.fuzz.setup import Setup, make_setup

TOLERANCE = 1e-6


class Wrong(AssertionError):
    """Something does not hold; the text says of which set-up."""


class Watched(Scheduler):
    """Checked after every fold and every decision."""

    def fold(self, now_s: float, events: Any) -> None:
        super().fold(now_s, events)
        validate(self.state)

    def commit(self, decided: Any) -> Any:
        for command in decided.commands if decided is not None else ():
            if isinstance(command, Suspend) and command.kind is SuspendKind.CHECKPOINT:
                self._check_suspension(command)
        commands = super().commit(decided)
        validate(self.state)
        return commands

    def _check_suspension(self, command: Suspend) -> None:
        """A job that saves nothing is told to save only if it has to leave."""
        machines, mine = self.state.nodes, self.state.jobs.attempts[command.job]
        leaves = not machines.draining.isdisjoint(mine.live_nodes) or not self.state.usable()[0][mine.gpus].all()
        assert self.state.jobs.specs[command.job].saves or leaves, f"job {command.job} saves nothing and was suspended"


def check_setup(number: int, folder: Path) -> dict[str, int]:
    """Run a set-up and check everything. Returns what it covered, for counting."""
    setup = make_setup(number, folder)
    try:
        ready, record = run(setup)
        placed = check_placements(setup, ready, record)
        check_ends(ready, record)
        check_bounds(ready, record)
        check_work(ready, record)
        again = number % 4 == 0
        if again:
            check_same(record, run(make_setup(number, folder), watched=False)[1])
        neutral = not setup.resume_in_place and is_neutral(setup, ready) and check_turns(setup, record)
    except Exception as problem:
        raise Wrong(f"{setup}\n{type(problem).__name__}: {problem}") from problem
    return {"jobs": len(setup.trace), "shared": placed, "again": again, "neutral": neutral}


def run(setup: Setup, watched: bool = True, **others: Any) -> tuple[PreparedStudy, Record]:
    ready = prepare(**{**setup.keywords, **others})
    settings = replace(ready.setup.settings, resume_in_place=setup.resume_in_place)
    ready = replace(ready, setup=replace(ready.setup, settings=settings))
    return ready, ready.engine(core=Watched if watched else Scheduler).run()


def check_placements(setup: Setup, ready: PreparedStudy, record: Record) -> bool:
    """No GPU twice but to two jobs of a policy that packs, gangs whole, only types that the job accepts. True: some shared."""
    holds, cluster = record.gpu_intervals, ready.cluster
    gpus = [holds.gpus[start:end] for start, end in itertools.pairwise(holds.first.tolist())]
    edges: dict[int, list[tuple[float, int, int]]] = {}
    for job, start_s, end_s, mine in zip(holds.job.tolist(), holds.start_s.tolist(), holds.end_s.tolist(), gpus, strict=True):
        spec = ready.trace.arrivals[job].spec
        accepts = spec.gpu_counts or (spec.width,)
        assert len(np.unique(mine)) == len(mine) in accepts, f"job {job} accepts {accepts} GPUs and held {mine}"
        types = {cluster.pools[pool] for pool in cluster.gpu_pool[mine].tolist()}
        assert len(types) == 1, f"job {job} held GPUs of {types}"
        assert not spec.accelerators or types <= set(spec.accelerators), f"job {job} held {types}, not {spec.accelerators}"
        if end_s > start_s:
            for gpu in mine.tolist():
                edges.setdefault(gpu, []).extend(((start_s, 1, job), (end_s, -1, job)))
    most = 2 if shares(ready) else 1
    shared = False
    memory = NodeTable.of(cluster).gpu_gib
    for gpu, moments in edges.items():
        holders: list[int] = []
        for at_s, step, job in sorted(moments):
            holders.append(job) if step > 0 else holders.remove(job)
            parts = [ready.trace.arrivals[each].spec.milli_per_gpu for each in holders]
            room = MILLI if min(parts, default=MILLI) < MILLI else most * MILLI
            assert sum(parts) <= room, f"GPU {gpu} is held by jobs {holders} at {at_s} s"
            shared |= len(holders) > 1
            if ready.setup.settings.tactics.colocating is not None and len(holders) > 1 and room > MILLI:
                taken, there = sum(ready.trace.arrivals[each].spec.gpu_gib or 0.0 for each in holders), memory[gpu]
                assert taken <= there, f"jobs {holders} take {taken} GiB of the {there} GiB of GPU {gpu} at {at_s} s"
    return shared


def shares(ready: PreparedStudy) -> bool:
    """Two jobs may have the same GPUs."""
    return ready.setup.settings.colocation or ready.setup.settings.tactics.colocating is not None


def costs(ready: PreparedStudy) -> bool:
    """Starting or stopping takes time."""
    physics = ready.physics
    fixed = physics.launch_seconds or physics.checkpoint_seconds or physics.restore_seconds or physics.resize_seconds
    return bool(fixed) or physics.memory != MemoryCosts()


def check_ends(ready: PreparedStudy, record: Record) -> None:
    """Everybody finishes, and nobody sooner than its work takes on the best GPUs that there are."""
    assert not np.isnan(record.finished_s).any(), f"jobs {np.flatnonzero(np.isnan(record.finished_s))} never ended"
    for job, arrival in enumerate(ready.trace.arrivals):
        alone = ready.physics.fastest(arrival.spec, ready.cluster)
        sizes = ready.physics.fastest_by_width(arrival.spec, ready.cluster)
        asked = {pool: rates[arrival.spec.width] for pool, rates in sizes.items() if arrival.spec.width in rates}
        beside = ready.physics.fastest_colocated(arrival.spec, ready.cluster, asked).values() if shares(ready) else ()
        least = arrival.spec.steps / max((*alone.values(), *beside))
        took = record.finished_s[job] - arrival.submitted_s
        assert took >= least * (1 - TOLERANCE) - TOLERANCE, f"job {job} took {took} s for the work of {least} s"


def check_bounds(ready: PreparedStudy, record: Record) -> None:
    """No bound is beaten."""
    summary = summarise(
        record,
        ready.trace.arrivals,
        ready.cluster,
        ready.physics,
        rounds=None,
        decisions=record.decisions,
        decision_seconds=None,
        simulated_in_seconds=None,
        peak_memory_mb=None,
    )
    for name, bound in (
        ("mean_jct_seconds", summary.mean_jct_bound_seconds),
        ("makespan_seconds", summary.makespan_bound_seconds),
    ):
        value = getattr(summary, name)
        assert value is None or bound is None or value >= bound * (1 - TOLERANCE), f"{name} {value} is below its bound {bound}"


def check_work(ready: PreparedStudy, record: Record) -> None:
    """GPU time is neither made up nor lost in the books; where nothing costs anything, jobs held GPUs for just what they need."""
    holds, physics, cluster = record.gpu_intervals, ready.physics, ready.cluster
    parts = np.array([arrival.spec.milli_per_gpu for arrival in ready.trace.arrivals], dtype=np.float64) / MILLI
    total = float(((holds.end_s - holds.start_s) * np.diff(holds.first) * parts[holds.job]).sum())
    twice = sum(count * (end_s - start_s) for _, _, _, count, start_s, end_s in holds.shared)
    assert np.isclose(record.occupied_gpu_seconds.sum(), total - twice, atol=TOLERANCE), "held GPU-seconds do not add up"
    assert np.isclose(record.pool_gpu_seconds.sum(), total - twice, atol=TOLERANCE), "GPU-seconds of the pools do not add up"
    several = any(arrival.spec.batch_sizes for arrival in ready.trace.arrivals)
    free = not costs(ready) and not physics.rates.batches and not several  # what was held does not tell the batch size
    if (
        not free
        or ready.changes
        or physics.fails
        or physics.whole_steps_seconds
        or physics.completion_poll_seconds
        or holds.shared
    ):
        return
    done = np.zeros(len(ready.trace.arrivals))
    for number, (start, end) in enumerate(itertools.pairwise(holds.first.tolist())):
        gpus, job = holds.gpus[start:end], int(holds.job[number])
        rate = physics.rate(ready.trace.arrivals[job].spec, cluster, gpus, cluster.spanned(gpus))
        done[job] += rate * (holds.end_s[number] - holds.start_s[number])
    steps = np.array([arrival.spec.steps for arrival in ready.trace.arrivals])
    wrong = np.flatnonzero(~np.isclose(done, steps, rtol=1e-6, atol=1e-4))
    assert not len(wrong), f"jobs {wrong} did {done[wrong]} steps, not {steps[wrong]}"


def check_same(record: Record, again: Record) -> None:
    """The same seed gives the same result, to the bit."""
    for name in (
        "first_run_s",
        "finished_s",
        "occupied_gpu_seconds",
        "suspensions",
        "migrations",
        "resizes",
        "launches",
        "lost_gpu_seconds",
    ):
        assert np.array_equal(getattr(record, name), getattr(again, name), equal_nan=True), f"{name} differ from run to run"


def is_neutral(setup: Setup, ready: PreparedStudy) -> bool:
    """All GPUs are equal, wherever they are, and moves cost nothing: then a placer can make no difference."""
    physics = ready.physics
    equal = len(ready.cluster.pools) == 1 and physics.gpu_speed is None and physics.variability is None
    stays = not all(arrival.spec.saves for arrival in ready.trace.arrivals)  # then it matters where jobs sleep
    layout = physics.layout_matters((arrival.spec for arrival in ready.trace.arrivals), ready.cluster)
    learns = ready.setup.settings.learn or ready.setup.settings.tactics  # what is measured depends on who was moved when
    return (
        equal
        and not ready.changes
        and not (stays or costs(ready) or layout or learns or physics.fails or ready.setup.settings.wait_for_locality)
    )


OTHERS = ("packed", "packed:sticky=false", "spread", "random", "random:sticky=false", "pal", "skew:sticky=false")


def check_turns(setup: Setup, record: Record) -> bool:
    """Whoever picks the GPUs, the same jobs run at the same times."""
    other = OTHERS[setup.number % len(OTHERS)]
    _, again = run(setup, watched=False, placer=other)
    same = np.isclose(record.finished_s, again.finished_s, rtol=1e-9, atol=1e-6)
    late, before = again.finished_s[~same], record.finished_s[~same]
    assert same.all(), f"with {other}, jobs {np.flatnonzero(~same)} finish at {late} s instead of {before} s"
    return True
