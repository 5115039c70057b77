"""The Python face's functions: three lines to a result."""

import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rota.beliefs.costs import MoveCosts
from rota.beliefs.locality import Locality
from rota.beliefs.options import make_options, why_never
from rota.beliefs.rates import Rates
from rota.beliefs.skew import Skews
from rota.beliefs.variability import Variability, plain_name
from rota.compose.catalogue import make_placer, make_policy, split_pair
from rota.compose.presets import preset as named_preset
from rota.compose.profiled import told
from rota.compose.site import open_site
from rota.core.cordon import slow_gpus
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.errors import OptionError, TraceError
from rota.files.rows import closest
from rota.model.accelerators import ACCELERATORS, BETWEEN_NODES_GB_S
from rota.model.cluster import Cluster
from rota.model.floor import Placer, Request
from rota.model.job import JobSpec
from rota.model.options import Kind
from rota.model.policy import Policy
from rota.model.units import FOREVER
from rota.placers.picky import Picky
from rota.profiles.catalogue import Catalogue
from rota.profiles.read import read_rates
from rota.profiles.tensors import read_tensors
from rota.profiles.variability import read_variability
from rota.report.comparison import Comparison
from rota.report.metrics import summarise
from rota.report.result import Result
from rota.report.thrash import thrash_notes
from rota.sim.conformance import LIMIT_SECONDS, Finding, check_policy
from rota.sim.engine import Engine, Progress
from rota.sim.physics import Physics
from rota.traces.synthetic import open_trace, reseeded
from rota.traces.trace import Trace

CLUSTER = "8xV100 + 8xP100 + 8xK80"
"""Where nothing else is said."""

Where = Mapping[str, str] | Sequence[tuple[str, str]]
"""Columns and the values they must have."""

MOST_REASONS = 10
"""Reasons for leaving rows out that a result lists; each oversized job has one of its own."""

DECIDE = ("events", "rounds", "both")


def simulate(
    trace: str | Path | Trace,
    *,
    policy: str | Policy = "fifo",
    cluster: str | Cluster = CLUSTER,
    placer: str | Placer | None = None,
    preset: str | None = None,
    profile: str | Path | None = None,
    profiled: float | None = None,
    variability: str | Path | None = None,
    variability_medians: bool = False,
    variability_learned: bool = False,
    cordon_slower_than: float | None = None,
    tensors: str | Path | None = None,
    format: str = "auto",
    where: Where = (),
    first: int | None = None,
    jobs: tuple[int, int] | None = None,
    drop_oversized: bool = False,
    decide: str | None = None,
    round_seconds: float | None = None,
    wait_for_place: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
    **physics: Any,
) -> Result:
    """Run a trace through a policy on a simulated cluster.

    `trace` is a path, the name of a built-in one (`demo`), `synthetic:jobs=500,seed=1`, or a Trace. `policy` and `placer` are
    names with options (`tiresias:thresholds=3250/7200`), `A+B` for policy A with placer B, or objects. `cluster` is a text, the
    path of a YAML file, or a Cluster. With `profiled=0.3` the scheduler is told only that part of the rates of half the
    profiles: it estimates the rest and learns from what runs. `variability` says how slow each GPU is; `variability_learned`:
    the scheduler is not told, and learns it. `tensors` is a file of skews; `wait_for_place`: jobs wait until their GPUs can be
    had close together; `cordon_slower_than` takes slow GPUs out of service. Further keywords are those of `Physics`:
    `launch_seconds`, `spread_penalty` and so on; they win over the preset's.
    """
    ready = prepare(
        trace,
        policy=policy,
        cluster=cluster,
        placer=placer,
        preset=preset,
        profile=profile,
        profiled=profiled,
        variability=variability,
        variability_medians=variability_medians,
        variability_learned=variability_learned,
        cordon_slower_than=cordon_slower_than,
        tensors=tensors,
        format=format,
        where=where,
        first=first,
        jobs=jobs,
        drop_oversized=drop_oversized,
        decide=decide,
        round_seconds=round_seconds,
        wait_for_place=wait_for_place,
        seed=seed,
        **physics,
    )
    started = time.perf_counter()
    engine = ready.engine(progress)
    scheduler, truth, workload = engine.scheduler, ready.physics, ready.trace
    record = engine.run()
    summary = summarise(
        record,
        workload.arrivals,
        ready.cluster,
        truth,
        window=ready.window,
        rounds=scheduler.state.plans,
        decisions=record.decisions,
        decision_seconds=record.decision_seconds,
        simulated_in_seconds=time.perf_counter() - started,
        peak_memory_mb=_peak_memory_mb(),
    )
    state = scheduler.state
    ready.params["notes"] += [*slow_gpus(state), *thrash_notes(record, workload.arrivals, truth)]
    return Result(
        summary,
        ready.params,
        record,
        workload.arrivals,
        ready.cluster,
        truth.variability,
        state.variability,
        tuple(sorted(state.out_of_service())),
    )


def _told(truth: Physics, learned: bool) -> Variability | None:
    """What the scheduler knows of slow GPUs at first: all of it, or the classes of applications alone."""
    if truth.variability is None or not learned:
        return truth.variability
    return Variability.alike(truth.variability.gpus, truth.variability.classes, truth.variability.class_of)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Everything a simulation needs, looked at: names are values, files are read, and it all fits together."""

    cluster: Cluster
    physics: Physics
    policy: Policy
    placer: Placer
    trace: Trace
    settings: Settings
    skews: Skews
    rates_shown: Rates
    """What the scheduler is told of rates: all of it, or a part."""
    variability_shown: Variability | None
    """What it knows of slow GPUs at first."""
    window: tuple[int, int] | None
    params: dict[str, Any]

    def engine(self, progress: Progress | None = None, core: type[Scheduler] = Scheduler) -> Engine:
        """A simulation that is ready to run."""
        truth = self.physics
        scheduler = core(
            self.cluster,
            self.placer,
            self.settings,
            rates=self.rates_shown,
            costs=MoveCosts(truth.launch_seconds, truth.checkpoint_seconds, truth.restore_seconds),
            variability=self.variability_shown,
            skews=self.skews,
        )
        return Engine(
            scheduler,
            self.policy,
            truth,
            self.trace.arrivals,
            seed=self.settings.seed,
            report_seconds=_report_seconds(truth, self.settings, self.trace, self.cluster),
            progress=progress,
        )


def prepare(
    trace: str | Path | Trace,
    *,
    policy: str | Policy = "fifo",
    cluster: str | Cluster = CLUSTER,
    placer: str | Placer | None = None,
    preset: str | None = None,
    profile: str | Path | None = None,
    profiled: float | None = None,
    variability: str | Path | None = None,
    variability_medians: bool = False,
    variability_learned: bool = False,
    cordon_slower_than: float | None = None,
    tensors: str | Path | None = None,
    format: str = "auto",
    where: Where = (),
    first: int | None = None,
    jobs: tuple[int, int] | None = None,
    drop_oversized: bool = False,
    decide: str | None = None,
    round_seconds: float | None = None,
    wait_for_place: bool = False,
    seed: int = 0,
    **physics: Any,
) -> Prepared:
    """What `simulate` does before it simulates: whatever is wrong with its arguments is said here."""
    site = open_site(cluster)
    floor = site.cluster
    chosen = named_preset(preset)
    if chosen.dollars_per_hour:
        floor = replace(floor, dollars_per_hour={**chosen.dollars_per_hour, **floor.dollars_per_hour})
    truth = _physics({**site.physics, **chosen.physics}, floor, profile, physics)
    _check_gpus(truth, variability, variability_medians, variability_learned, cordon_slower_than)
    if variability is not None:
        truth = replace(truth, variability=read_variability(variability, floor, seed, not variability_medians))
    policy_text, pair = split_pair(policy) if isinstance(policy, str) else (policy, None)
    if pair is not None and placer is not None:
        raise OptionError(
            "a placer is named twice.", field="placer", value=placer, hint=f"--policy {policy_text}, or leave --placer out"
        )
    rule = make_policy(policy_text, chosen.options)
    spots = make_placer(placer if placer is not None else pair or "packed", chosen.options)
    workload = trace if isinstance(trace, Trace) else open_trace(trace, format=format, where=filters(where))
    if drop_oversized:
        workload = _fitting(workload, floor, truth, drop_oversized)
    if first is not None:
        workload = workload.first(_positive(first, "first"))
    workload = _fitting(workload, floor, truth, drop_oversized)
    settings = _settings(
        chosen.settings,
        decide,
        round_seconds,
        seed=seed,
        policy=policy_text if isinstance(policy_text, str) else type(policy_text).__qualname__,
        packing=bool(getattr(rule, "packing", False)),
        wait_for_place=wait_for_place,
        learn_variability=variability_learned,
        cordon_slower_than=cordon_slower_than if cordon_slower_than is not None else FOREVER,
    )
    rates_shown = truth.whole_rates
    if profiled is not None:
        rates_shown = told(rates_shown, profiled, seed)
        settings = replace(settings, learn=True)
    if truth.whole_steps_seconds:
        truth = replace(truth, whole_steps_seconds=settings.round_seconds if settings.whole_steps else 0.0)
    params = {
        "trace": workload.name,
        "format": workload.format,
        "skipped": len(workload.skipped),
        "skipped_why": dict(Counter(each.why for each in workload.skipped).most_common(MOST_REASONS)),
        "notes": [*workload.notes, *_guesses(workload, floor, truth, spots, wait_for_place)],
        "jobs": f"{jobs[0]}:{jobs[1]}" if jobs is not None else None,
        "policy": policy if isinstance(policy, str) else type(policy).__name__,
        "placer": placer if isinstance(placer, str) else (pair or "packed" if placer is None else type(placer).__name__),
        "cluster": str(floor),
        "profile": str(profile) if profile is not None else None,
        "profiled": profiled,
        "variability": str(variability) if variability is not None else None,
        "variability_medians": variability_medians,
        "variability_learned": variability_learned,
        "cordon_slower_than": cordon_slower_than,
        "tensors": str(tensors) if tensors is not None else None,
        "preset": preset or "measured",
        "decide": "both" if settings.at_events and settings.round_seconds else "events" if settings.at_events else "rounds",
        "round_seconds": settings.round_seconds or None,
        "wait_for_place": wait_for_place,
        "seed": seed,
        "first": first,
        "where": dict(filters(where)) if where else None,
        "drop_oversized": drop_oversized,
        "physics": _plain_physics(physics),
    }
    return Prepared(
        cluster=floor,
        physics=truth,
        policy=rule,
        placer=spots,
        trace=workload,
        settings=settings,
        skews=Skews(read_tensors(tensors) if tensors is not None else {}, Catalogue()),
        rates_shown=rates_shown,
        variability_shown=_told(truth, variability_learned),
        window=_window(jobs, len(workload.arrivals)),
        params=params,
    )


def _check_gpus(truth: Physics, path: str | Path | None, medians: bool, learned: bool, cordon: float | None) -> None:
    """Flags about slow GPUs need GPUs that differ: one that could do nothing is a mistake."""
    if path is not None or truth.gpu_speed is not None:
        return
    given = {"variability_medians": medians, "variability_learned": learned, "cordon_slower_than": cordon}
    for name, value in given.items():
        if value:
            problem = "does nothing: without --variability all GPUs of a type are alike."
            raise OptionError(
                problem, field=name, value=value, hint="--variability scores.csv; docs/variability.md has the format"
            )


def _plain_physics(given: Mapping[str, Any]) -> dict[str, float | str]:
    """Keywords of the physics as they can be written down and given again; arrays cannot."""
    found: dict[str, float | str] = {name: value for name, value in given.items() if isinstance(value, int | float)}
    penalty = given.get("spread_penalty")
    if penalty is not None and "spread_penalty" not in found:
        found["spread_penalty"] = str(Locality.of(penalty))
    return found


def _guesses(trace: Trace, cluster: Cluster, physics: Physics, placer: Placer, waits: bool) -> list[str]:
    """What was taken for something else because nobody knows it, or does nothing: said, since it may be a slip of the pen."""
    found = []
    if isinstance(placer, Picky) and physics.variability is None:
        found.append("all GPUs of a type count as equally fast: --variability says how slow each is")
    if waits and not placer.keeps_together(Request(0, 0, 1, 0.0)):
        found.append("nobody waits for a place: this placer keeps no job together")
    if physics.spread_penalty is not None:
        models = {arrival.spec.profile for arrival in trace.arrivals}
        plain = {plain_name(each) for each in models}
        for model in physics.spread_penalty.models:
            if model not in models and plain_name(model) not in plain:
                found.append(
                    f"no job here is of the model {model!r}, which has a spread penalty.{closest(model, sorted(models))}"
                )
    for name in cluster.pools:
        if name not in ACCELERATORS and not physics.rates.everywhere:
            found.append(f"{name} is no accelerator type known here and counts as a V100.{closest(name, ACCELERATORS)}")
    counts = Counter(arrival.spec.profile for arrival in trace.arrivals if arrival.spec.profile)
    unknown = {profile: count for profile, count in counts.items() if not physics.rates.knows(profile)}
    if unknown:
        names = ", ".join(repr(name) for name in list(unknown)[:3]) + (", ..." if len(unknown) > 3 else "")
        jobs = sum(unknown.values())
        found.append(
            f"nobody knows the profile of {jobs:,} job{'' if jobs == 1 else 's'} ({names}): one step per second on a V100"
        )
    return found


def compare(
    policies: Sequence[str | Policy],
    *,
    trace: str | Path | Trace = "demo",
    placers: Sequence[str] = (),
    seeds: int = 1,
    seed: int = 0,
    format: str = "auto",
    where: Where = (),
    progress: Callable[[str, int, int, float], None] | None = None,
    **options: Any,
) -> Comparison:
    """The same jobs under several policies; further options as for `simulate`.

    `A+B` is policy A with placer B; with several `placers`, every policy that names none runs with each. Every seed gives all of
    them the same jobs and the same luck: a generated trace is generated anew for each seed, a file stays as it is.
    """
    if seeds < 1:
        raise OptionError("must be at least 1.", field="seeds", value=seeds, hint="--seeds 5")
    contenders = _contenders(policies, placers)
    runs: dict[str, list[Result]] = {label: [] for label in contenders}
    for extra in range(seeds):
        jobs = trace if isinstance(trace, Trace) else open_trace(reseeded(trace, extra), format=format, where=filters(where))
        for label, (policy, placer) in contenders.items():
            show = partial(progress, label) if progress is not None else None
            runs[label].append(simulate(jobs, policy=policy, placer=placer, seed=seed + extra, progress=show, **options))
    return Comparison(runs)


def _contenders(policies: Sequence[str | Policy], placers: Sequence[str]) -> dict[str, tuple[str | Policy, str | None]]:
    """What runs against what, by the name it gets in the table."""
    if isinstance(policies, str) or not policies:
        raise OptionError("give a list of policies.", field="policies", value=policies, hint='["fifo", "tiresias"]')
    for named in placers:
        make_placer(named)
    if placers and all(isinstance(policy, str) and "+" in policy for policy in policies):
        raise OptionError("every policy names its own placer.", field="placer", value=placers[0], hint="leave --placer out")
    found: dict[str, tuple[str | Policy, str | None]] = {}
    for policy in policies:
        free = not (isinstance(policy, str) and "+" in policy)
        for placer in placers if placers and free else (None,):
            name = policy if isinstance(policy, str) else type(policy).__name__
            label = f"{name}+{placer}" if placer is not None and len(placers) > 1 else name
            taken, number = label, 2
            while taken in found:
                taken, number = f"{label} #{number}", number + 1
            found[taken] = (policy, placer)
    return found


def check(policy: str | Policy, *, seeds: int = 20, limit_seconds: float = LIMIT_SECONDS) -> list[Finding]:
    """Run the property suite on a policy, each property for `limit_seconds` at most."""
    if seeds < 1:
        raise OptionError("must be at least 1.", field="seeds", value=seeds, hint="--seeds 20")
    make_policy(policy)  # a name nobody knows is a mistake of the caller's, not of the policy's
    if not limit_seconds > 0:
        raise OptionError("must be more than 0.", field="limit_seconds", value=limit_seconds, hint="--limit-seconds 60")
    return check_policy(lambda: make_policy(policy), seeds, limit_seconds)


def filters(where: Where) -> list[tuple[str, str]]:
    return [(str(column), str(value)) for column, value in (where.items() if isinstance(where, Mapping) else where)]


def _physics(base: Any, cluster: Cluster, profile: str | Path | None, given: dict[str, Any]) -> Physics:
    known = {name: value for name, value in given.items() if value is not None}
    unknown = known.keys() - Physics.__dataclass_fields__.keys()
    if unknown:
        name = min(unknown)
        raise OptionError("simulate takes no such keyword.", field=name, value=known[name], hint="see help(rota.simulate)")
    values = {**base, **known}
    rates: Rates = values.get("rates", Rates())
    if rates.model is not None and (cluster.inside_gb_s or cluster.between_gb_s is not None):
        links = Catalogue(cluster.inside_gb_s, cluster.between_gb_s or BETWEEN_NODES_GB_S, cluster.beyond_gb_s)
        rates = replace(rates, model=links)
    if profile is not None:
        # What was measured wins, on every type as it is; what was not is left to the model.
        rates = replace(read_rates(profile), model=rates.model, speeds=rates.speeds)
    return Physics(**{**values, "rates": rates})


def _settings(base: Any, decide: str | None, round_seconds: float | None, **others: Any) -> Settings:
    if decide is not None and decide not in DECIDE:
        raise OptionError(f"not one of {', '.join(DECIDE)}.", field="decide", value=decide, hint="--decide events")
    if decide in ("rounds", "both") and not (round_seconds or base.get("round_seconds")):
        raise OptionError("rounds need a length.", field="decide", value=decide, hint="--round-seconds 360")
    if round_seconds is not None and not 0 < round_seconds < FOREVER:
        raise OptionError("must be more than 0.", field="round_seconds", value=round_seconds, hint="--round-seconds 360")
    values = {"at_events": True, **base}
    if round_seconds is not None:
        values.update(round_seconds=round_seconds, at_events=decide in ("events", "both"))
        if decide == "events":
            values["round_seconds"] = 0.0
    if decide is not None:
        values["at_events"] = decide in ("events", "both")
        if decide == "events":
            values["round_seconds"] = 0.0
    values["whole_steps"] = values.get("whole_steps", False) and not values["at_events"]
    return Settings(**values, **others)


def _fitting(trace: Trace, cluster: Cluster, physics: Physics, drop: bool) -> Trace:
    """Jobs that could never run on this cluster are refused, or dropped and counted if asked for."""
    verdicts: dict[Kind, bool] = {}

    def fits(spec: JobSpec) -> bool:
        kind = Kind.of(spec)
        if kind not in verdicts:
            verdicts[kind] = len(make_options([kind], cluster, physics.rates)) > 0
        return verdicts[kind]

    hopeless = [arrival.spec for arrival in trace.arrivals if not fits(arrival.spec)]
    if hopeless and not drop:
        worst = max(hopeless, key=lambda spec: spec.gpus)
        _, why = why_never(Kind.of(worst), cluster)
        raise TraceError(
            f"{len(hopeless)} jobs can never run on {cluster}: {worst.name or 'one'} asks for {worst.gpus} GPUs of "
            f"{' or '.join(worst.accelerators) or 'any type'}; {why}.",
            where=trace.name,
            hint="--drop-oversized leaves them out and counts them, or a larger --cluster",
        )
    kept = trace.without_oversized(fits) if hopeless else trace
    if not kept.arrivals:
        raise TraceError(
            f"no job is left to simulate: {_why_none(kept)}.", where=trace.name, hint="rota trace info, or another --where"
        )
    endless = [arrival.spec for arrival in kept.arrivals if not arrival.spec.steps < FOREVER]
    if endless:
        raise TraceError(
            f"{len(endless):,} of {len(kept):,} jobs have no number of steps and would never end, "
            f"{endless[0].name or 'one'!r} first.",
            where=trace.name,
            hint="give each job its steps, or how long it takes",
        )
    return kept


def _why_none(trace: Trace) -> str:
    """What became of all the rows of a trace without jobs."""
    if not trace.skipped:
        return "the trace has none"
    reasons = Counter(each.why for each in trace.skipped).most_common(3)
    more = len(trace.skipped) - sum(count for _, count in reasons)
    listed = "; ".join(f"{count:,} x {why}" for why, count in reasons) + (f"; and {more:,} others" if more else "")
    return f"{len(trace.skipped):,} were left out ({listed})"


def _positive(value: int, field: str) -> int:
    if value < 1 or value != int(value):
        raise OptionError("must be a whole number from 1.", field=field, value=value, hint="--first 1000")
    return int(value)


def _window(jobs: tuple[int, int] | None, count: int) -> tuple[int, int] | None:
    if jobs is None:
        return None
    low, high = jobs
    if not 0 <= low < high <= count:
        raise OptionError(f"not a window of the {count} jobs.", field="jobs", value=f"{low}:{high}", hint=f"--jobs 0:{count}")
    return jobs


def _report_seconds(physics: Physics, settings: Settings, trace: Trace, cluster: Cluster) -> float:
    """Jobs tell where they are only where the scheduler could not know it already."""
    surprises = (
        settings.learn
        or settings.learn_variability
        or physics.gpu_speed is not None
        or (physics.fails and physics.checkpoint_every_seconds < FOREVER)
    )
    surprises = surprises or physics.layout_matters((arrival.spec for arrival in trace.arrivals), cluster)
    return max(settings.round_seconds, 300.0) if surprises else FOREVER


def _peak_memory_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)
