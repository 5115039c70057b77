"""Prepare a study for simulation: turn names into values, read files, and check that everything fits together."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from rota.beliefs.locality import Locality
from rota.beliefs.make_options import make_options, why_never
from rota.beliefs.rates import Rates
from rota.beliefs.skews import Skews
from rota.beliefs.variability import Variability
from rota.compose.accelerator_types import type_assumptions
from rota.compose.cluster_yaml import open_cluster
from rota.compose.elastic_jobs import made_elastic, same_sizes
from rota.compose.hidden_rates import reveal_rates
from rota.compose.idle_options import Combination
from rota.compose.limits import LIMITS, check_limits, out_of_range
from rota.compose.make_setup import Parts, find_parts, make_setup, round_length_seconds
from rota.compose.presets import preset as named_preset
from rota.compose.simulated_parking import parked
from rota.compose.study import Study
from rota.compose.tenants_yaml import check_owners, check_tenants, read_tenants
from rota.compose.unknown_profiles import unknown_profiles
from rota.core.decision_timing import AtEvents, DecisionTiming, WholeSteps
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.setup import GivenBeliefs, Setup
from rota.errors import OptionError, TraceError
from rota.model.accelerators import BETWEEN_NODES_GB_S
from rota.model.cluster import Cluster, ClusterChange
from rota.model.counted import counted
from rota.model.job import JobSpec
from rota.model.options import Kind
from rota.model.policy import Policy
from rota.model.reasons import Reason
from rota.model.units import FOREVER
from rota.profiles.catalogue import Catalogue
from rota.profiles.curves import published_efficiency
from rota.profiles.scaling import StepTimes
from rota.profiles.simulation_rates import read_rates
from rota.profiles.tensors import read_tensors
from rota.profiles.variability_files import read_variability
from rota.sim.engine import Engine, Progress
from rota.sim.limit_engine import LimitEngine, LimitSearchEngine
from rota.sim.physics import Physics
from rota.sim.search_engine import SearchEngine
from rota.traces.read_trace import AUTO
from rota.traces.synthetic import open_trace
from rota.traces.trace import Trace

MAX_REASONS = 10
"""Maximum number of reasons for skipped rows in a result. Each oversized job has a reason of its own."""

MEASURE_SECONDS = 30.0
"""Interval between measurements of running jobs if jobs may be colocated, in seconds."""

NEEDS_SCORES = ("variability_medians", "learn_variability", "cordon_slower_than")
"""Fields without effect in a simulation where all GPUs of a type are alike."""

PHYSICS = tuple(each.name for each in fields(Physics) if each.name != "variability")
"""Fields of a study that are fields of `Physics` too. A study's `variability` is a path."""


@dataclass(frozen=True, kw_only=True)
class PreparedStudy:
    """A checked study, with names turned into values and files read."""

    study: Study
    cluster: Cluster
    physics: Physics
    policy: Policy
    trace: Trace
    setup: Setup
    """Setup of the scheduler. It is given what it knows of rates and slow GPUs: all, or a part."""
    changes: tuple[ClusterChange, ...]
    """Events of nodes that join, are drained or leave."""
    window: tuple[int, int] | None
    assumptions: tuple[str, ...]
    """Assumptions about unknown inputs; the notes contain them too."""
    params: dict[str, Any]
    """Facts about the study for people: resolved names, and notes."""

    def engine(self, progress: Progress | None = None, core: type[Scheduler] = Scheduler) -> Engine:
        """Return a simulation that is ready to run."""
        physics = self.physics
        joining = sum(change.what == "join" for change in self.changes)
        there = replace(self.cluster, nodes=self.cluster.nodes[: len(self.cluster.nodes) - joining])
        settings = self.setup.settings
        return self._make_engine()(
            core.of(there if joining else self.cluster, self.setup),
            self.policy,
            physics,
            self.trace.arrivals,
            seed=settings.seed,
            report_seconds=_report_seconds(physics, settings, self.trace, self.cluster),
            measure_seconds=MEASURE_SECONDS if settings.tactics.colocating is not None else FOREVER,
            progress=progress,
            cluster=self.cluster,
            changes=self.changes,
        )

    def _make_engine(self) -> Callable[..., Engine]:
        """Return the engine for what this trace has: searches, limits on run time, both or neither."""
        searches = self.trace.searches
        limited = any(arrival.spec.max_run_seconds is not None for arrival in self.trace.arrivals)
        if searches:
            return partial(LimitSearchEngine if limited else SearchEngine, searches=searches)
        return LimitEngine if limited else Engine


def prepare_study(study: Study, opened: Trace | None = None) -> PreparedStudy:
    """Prepare a study. Raise if anything in it is wrong. `opened` is its trace if that is open already."""
    check_limits(study)
    site = open_cluster(study.cluster)
    cluster = site.cluster
    preset = named_preset(study.preset)
    if preset.dollars_per_hour:
        cluster = replace(cluster, dollars_per_hour={**preset.dollars_per_hour, **cluster.dollars_per_hour})
    physics = make_physics(study, {**site.physics, **preset.physics}, cluster)
    check_gpus(study, physics, NEEDS_SCORES)
    if study.variability is not None:
        scores = read_variability(study.variability, cluster, study.seed, not study.variability_medians)
        physics = replace(physics, variability=scores)
    tenants = read_tenants(study.tenants) if study.tenants is not None else None
    if tenants is not None:
        check_tenants(tenants, cluster, str(study.tenants))
    parts = find_parts(study, preset.options, tenants)
    given = opened if opened is not None else _opened(study)
    sized = made_elastic(study.elastic, given, physics.rates, cluster.gpus) if study.elastic is not None else given
    trace = _jobs(study, sized, cluster, physics)
    if tenants is not None:
        check_owners(tenants, (arrival.spec for arrival in trace.arrivals), str(study.tenants))
    if study.park is not None:
        physics, trace = parked(study.park, physics, trace)
    base = Settings(
        **preset.settings, seed=study.seed, learn=study.known_rates is not None, learn_variability=study.learn_variability
    )
    setup = make_setup(study, parts, base, _given(study, physics, parts), tenants)
    settings = setup.settings
    if physics.whole_steps_seconds:
        round_seconds = settings.decide.round_seconds if isinstance(settings.decide, WholeSteps) else 0.0
        physics = replace(physics, whole_steps_seconds=round_seconds)
    guesses = _assumptions(trace, cluster, physics.rates)
    idle = Combination(study, trace, cluster, physics, settings, parts.policy, parts.placer, same_sizes(given, sized)).notes()
    notes = [*trace.notes, *idle, *guesses]
    return PreparedStudy(
        study=study,
        cluster=cluster,
        physics=physics,
        policy=parts.policy,
        trace=trace,
        setup=setup,
        changes=site.changes,
        window=_window(study.window, len(trace.arrivals)),
        assumptions=tuple(guesses),
        params=_facts(study, cluster, trace, settings, parts.placer_name, notes),
    )


def _facts(study: Study, cluster: Cluster, trace: Trace, settings: Settings, placer: str, notes: list[str]) -> dict[str, Any]:
    """Return what was simulated, for JSON: each field as it was given, or its resolved value."""
    return {
        "trace": trace.name,
        "format": trace.format,
        "skipped": len(trace.skipped),
        "skipped_why": dict(Counter(each.why for each in trace.skipped).most_common(MAX_REASONS)),
        "notes": notes,
        "window": f"{study.window[0]}:{study.window[1]}" if study.window is not None else None,
        "policy": study.policy if isinstance(study.policy, str) else type(study.policy).__name__,
        "placer": placer,
        "cluster": str(cluster),
        "profile": _text(study.profile),
        "known_rates": study.known_rates,
        "variability": _text(study.variability),
        "variability_medians": study.variability_medians,
        "learn_variability": study.learn_variability,
        "cordon_slower_than": study.cordon_slower_than,
        "tensors": _text(study.tensors),
        "preset": study.preset or "measured",
        "decide": _decide_text(settings.decide),
        "round_seconds": round_length_seconds(settings.decide) or None,
        "min_run_factor": study.min_run_factor,
        "wait_for_locality": study.wait_for_locality,
        "park": study.park,
        "tactics": study.tactics,
        "tenants": _text(study.tenants),
        "seed": study.seed,
        "first": study.first,
        "where": dict(study.filters) or None,
        "elastic": study.elastic,
        "drop_oversized": study.drop_oversized,
        "physics": _plain_physics(study),
    }


def _text(path: object) -> str | None:
    return str(path) if path is not None else None


def _opened(study: Study) -> Trace:
    """Open the trace of a study."""
    if isinstance(study.trace, Trace):
        return _unfiltered(study, study.trace)
    return open_trace(study.trace, format=study.format, where=study.filters)


def _jobs(study: Study, trace: Trace, cluster: Cluster, physics: Physics) -> Trace:
    """Return the trace without the jobs that the study leaves out."""
    if study.drop_oversized:
        trace = _fitting(trace, cluster, physics, study.drop_oversized)
    if study.first is not None:
        trace = trace.first(_positive(study.first, "first"))
    return _fitting(trace, cluster, physics, study.drop_oversized)


def _unfiltered(study: Study, trace: Trace) -> Trace:
    """Raise OptionError if a trace that is not a file is given a format or a filter."""
    for name, given in (("format", study.format if study.format != AUTO else None), ("where", dict(study.filters) or None)):
        if given is not None:
            raise OptionError(
                "does nothing: the trace is not read from a file.", field=name, value=given, hint=f"leave {name} out"
            )
    return trace


def make_physics(study: Study, base: Mapping[str, Any], cluster: Cluster) -> Physics:
    """Return the physics of a study. Its own fields override the preset and the cluster."""
    given = {name: getattr(study, name) for name in PHYSICS if getattr(study, name) is not None}
    for name in ("gpu_speed", "node_mtbf_seconds", "node_repair_seconds"):
        if isinstance(given.get(name), tuple):
            given[name] = np.array(given[name], dtype=np.float64)
    values = {**base, **given}
    rates: Rates = values.get("rates", Rates())
    if rates.model is not None and (cluster.intra_node_gb_s or cluster.inter_node_gb_s is not None):
        links = Catalogue(cluster.intra_node_gb_s, cluster.inter_node_gb_s or BETWEEN_NODES_GB_S, cluster.inter_rack_gb_s)
        rates = replace(rates, model=links)
    if study.profile is not None:
        # Measured rates override the model on every type; the model provides all others.
        rates = measured_over(read_rates(study.profile), rates)
    if not rates.efficiency.curves and not rates.efficiency.noise:
        rates = replace(rates, efficiency=published_efficiency())
    physics = Physics(**{**values, "rates": rates})
    if study.spread_penalty is not None and physics.spread_penalty is not None:
        for factor in (f for each in (physics.spread_penalty.usual, *physics.spread_penalty.models.values()) for f in each):
            if factor > LIMITS["spread_penalty"].most:
                raise out_of_range("spread_penalty", factor)
    return physics


def measured_over(measured: Rates, usual: Rates) -> Rates:
    """Combine measured rates with the model for all other profiles."""
    model = usual.model
    if isinstance(measured.model, StepTimes):
        model = replace(measured.model, beyond=model) if model is not None else measured.model
    return replace(measured, model=model, speeds=usual.speeds)


def _given(study: Study, physics: Physics, parts: Parts) -> GivenBeliefs:
    """Return what the scheduler is given to believe."""
    rates = _rates_shown(physics, pairs=not parts.makes_trials)
    return GivenBeliefs(
        rates=reveal_rates(rates, study.known_rates, study.seed) if study.known_rates is not None else rates,
        costs=physics.costs,
        skews=Skews(read_tensors(study.tensors) if study.tensors is not None else {}, Catalogue()),
        scores=_variability_shown(physics, study.learn_variability),
    )


def _rates_shown(physics: Physics, *, pairs: bool) -> Rates:
    """Return the rates that the scheduler knows. For batch sizes and step times it has a model fitted to the measurements. A
    tactic measures pairs in trials, so the rates of pairs are hidden from it. A policy that colocates jobs itself makes no
    trials, so it gets the rates of pairs."""
    rates = physics.whole_rates
    if rates.efficiency.curves:
        rates = replace(rates, efficiency=rates.efficiency.modelled())
    if isinstance(rates.model, StepTimes):
        rates = replace(rates, model=rates.model.fitted())
    return rates if pairs else replace(rates, pairs={})


def _variability_shown(physics: Physics, learned: bool) -> Variability | None:
    """Return what the scheduler knows about slow GPUs at first: all scores, or only the application classes."""
    if physics.variability is None or not learned:
        return physics.variability
    return Variability.alike(physics.variability.gpus, physics.variability.classes, physics.variability.class_of)


def check_gpus(study: Study, physics: Physics, names: Sequence[str]) -> None:
    """Raise OptionError if a flag about slow GPUs is given, and all GPUs of a type are alike."""
    if study.variability is not None or physics.gpu_speed is not None:
        return
    for name in names:
        value = getattr(study, name)
        if value:
            problem = "does nothing: without --variability all GPUs of a type are alike."
            raise OptionError(problem, field=name, value=value, hint="--variability scores.csv; docs/slow-gpus.md has the format")


def _plain_physics(study: Study) -> dict[str, float | str]:
    """Return the costs and speeds that the study sets and that can be written as text, so not arrays."""
    given = {name: getattr(study, name) for name in PHYSICS}
    found: dict[str, float | str] = {name: value for name, value in given.items() if isinstance(value, int | float)}
    penalty = study.spread_penalty
    if penalty is not None and "spread_penalty" not in found:
        found["spread_penalty"] = str(Locality.of(penalty))
    return found


def _assumptions(trace: Trace, cluster: Cluster, rates: Rates) -> list[str]:
    """Return a sentence for each assumption about an unknown input, which may be a mistake."""
    found = type_assumptions(cluster, rates)
    measured = {profile for profile, _, _ in (*rates.table, *rates.across_nodes)}
    jobs, named = unknown_profiles((arrival.spec for arrival in trace.arrivals), rates.knows, measured)
    if jobs:
        have = "1 job has an unknown profile" if jobs == 1 else f"{jobs:,} jobs have unknown profiles"
        found.append(f"{have}: {named}; assuming one step per second on a V100")
    return found


def _decide_text(decide: DecisionTiming) -> str:
    """Return the value of `--decide`."""
    if isinstance(decide, AtEvents):
        return "events"
    return "both" if decide.at_events else "rounds"


def _fitting(trace: Trace, cluster: Cluster, physics: Physics, drop: bool) -> Trace:
    """Raise ClusterError if a job could never run on this cluster; with `drop`, leave such jobs out and count them."""
    verdicts: dict[tuple[object, ...], bool] = {}
    shape_of = attrgetter("profile", "gpus", "gpu_counts", "batch_size", "batch_sizes", "accelerators")

    def fits(spec: JobSpec) -> bool:
        key = shape_of(spec)
        found = verdicts.get(key)
        if found is None:
            found = verdicts[key] = len(make_options([Kind.of(spec)], cluster, physics.rates)) > 0
        return found

    hopeless = [arrival.spec for arrival in trace.arrivals if not fits(arrival.spec)]
    if hopeless and not drop:
        worst = max(hopeless, key=lambda spec: spec.gpus)
        code, why = why_never(Kind.of(worst), cluster)
        larger = f"with {worst.accelerators[0]}" if code is Reason.NO_SUCH_ACCELERATOR else "that is larger"
        raise TraceError(
            f"{counted(len(hopeless), 'job')} can never run on {cluster}: {worst.name or 'one'} requests "
            f"{counted(worst.gpus, 'GPU')} of {' or '.join(worst.accelerators) or 'any type'}; {why}.",
            where=trace.name,
            hint=f"--drop-oversized leaves {'it' if len(hopeless) == 1 else 'them'} out, or a --cluster {larger}",
        )
    kept = trace.without_oversized(fits) if hopeless else trace
    if not kept.arrivals:
        raise TraceError(
            f"no job is left to simulate: {_why_none(kept)}.", where=trace.name, hint="rota trace info, or another --where"
        )
    endless = [arrival.spec for arrival in kept.arrivals if arrival.spec.steps is None]
    if endless:
        raise TraceError(
            f"{len(endless):,} of {len(kept):,} jobs have no number of steps and would never end, "
            f"{endless[0].name or 'one'!r} first.",
            where=trace.name,
            hint="give each job its steps or its duration",
        )
    return kept


def _why_none(trace: Trace) -> str:
    """Return why a trace has no jobs left."""
    if not trace.skipped:
        return "the trace has none"
    reasons = Counter(each.why for each in trace.skipped).most_common(3)
    more = len(trace.skipped) - sum(count for _, count in reasons)
    listed = "; ".join(f"{count:,} x {why}" for why, count in reasons) + (f"; and {more:,} others" if more else "")
    return f"{len(trace.skipped):,} were left out ({listed})"


def _positive(value: int, field: str) -> int:
    if value != int(value):
        raise OptionError("must be a whole number from 1.", field=field, value=value, hint="--first 1000")
    return int(value)


def _window(jobs: tuple[int, int] | None, count: int) -> tuple[int, int] | None:
    if jobs is None:
        return None
    low, high = jobs
    if not 0 <= low < high <= count:
        raise OptionError(f"not a window of the {count} jobs.", field="window", value=f"{low}:{high}", hint=f"--window 0:{count}")
    return jobs


def _report_seconds(physics: Physics, settings: Settings, trace: Trace, cluster: Cluster) -> float:
    """Return how often jobs report their steps, in seconds. They report only what the scheduler cannot know already."""
    surprises = (
        settings.learn
        or settings.learn_variability
        or physics.gpu_speed is not None
        or (physics.fails and physics.checkpoint_every_seconds < FOREVER)
    )
    surprises = surprises or physics.layout_matters((arrival.spec for arrival in trace.arrivals), cluster)
    return max(round_length_seconds(settings.decide), 300.0) if surprises or settings.tactics.colocating is not None else FOREVER
