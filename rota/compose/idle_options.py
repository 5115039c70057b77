"""Notes on options of a study that do nothing in this combination. Such an option is probably a mistake."""

from dataclasses import dataclass

from rota.beliefs.rates import model_of
from rota.beliefs.variability import plain_name
from rota.compose.study import Study
from rota.core.decision_timing import AtEvents
from rota.core.settings import Settings
from rota.files.csv_table import closest
from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.model.needs import needs_of
from rota.model.placement_view import PlacementRequest, Placer
from rota.model.policy import Policy
from rota.profiles.scaling import StepTimes
from rota.profiles.variability_files import has_runs
from rota.sim.physics import Physics
from rota.sim.record import Record
from rota.tactics.grow import Grow
from rota.traces.trace import NEVER_FITS, Trace

_JOB = PlacementRequest(0, 0, 1, 0.0)
"""Request used to find out how a placer treats jobs."""


@dataclass(frozen=True)
class Combination:
    """A study, and the values that were made from it."""

    study: Study
    trace: Trace
    cluster: Cluster
    physics: Physics
    settings: Settings
    policy: Policy
    placer: Placer
    same_sizes: bool
    """Whether jobs accept exactly the sizes that the trace gives them."""

    def notes(self) -> list[str]:
        """Return a sentence for every option that does nothing."""
        return [*self._jobs(), *self._times(), *self._places(), *self._slow_gpus(), *self._rates(), *self._policy()]

    def _jobs(self) -> list[str]:
        study, jobs = self.study, len(self.trace.arrivals)
        found = []
        if study.first is not None and jobs < study.first:
            found.append(f"--first {study.first} does nothing: there are {jobs:,} jobs")
        if study.drop_oversized and not any(each.why.endswith(NEVER_FITS) for each in self.trace.skipped):
            found.append("--drop-oversized does nothing: every job fits")
        if study.elastic is not None and self.same_sizes:
            rigid = not any(arrival.spec.demand.elastic for arrival in self.trace.arrivals)
            why = "no job here accepts another size" if rigid else "every job accepts the same sizes without it"
            found.append(f"--elastic {study.elastic} does nothing: {why}")
        if study.window is not None and study.window == (0, jobs):
            found.append(f"--window 0:{jobs} does nothing: it counts every job")
        return found

    def _times(self) -> list[str]:
        study, found = self.study, []
        if study.round_seconds is not None and isinstance(self.settings.decide, AtEvents):
            found.append("--round-seconds does nothing with --decide events: there are no rounds")
        if not self.physics.fails:
            never = "does nothing: no node fails without --node-mtbf-seconds"
            found += [f"{flag} {never}" for name, flag in _FAILING.items() if getattr(study, name) is not None]
        if study.resize_seconds is not None and not any(arrival.spec.can_resize for arrival in self.trace.arrivals):
            found.append("--resize-seconds does nothing: no job here changes its size while it runs")
        if study.min_run_factor and not self.physics.costs.move_seconds and not _holds_memory(self.physics, self.trace):
            found.append("--min-run-factor does nothing: starting and stopping a job costs nothing")
        if study.measurement_noise and not self.settings.tactics:
            found.append("--measurement-noise does nothing: without --tactics nothing is measured")
        if (
            self.settings.tactics.find(Grow) is not None
            and study.tactics
            and not any(_can_grow(each) for each in self.trace.arrivals)
        ):
            found.append("the tactic grow does nothing: no job here accepts more GPUs while it runs")
        if study.memory is not None and not any(arrival.spec.resident_gib for arrival in self.trace.arrivals):
            found.append("memory does nothing: the GPU memory of every job is unknown")
        if study.whole_steps_seconds and not self.physics.whole_steps_seconds:
            found.append("whole_steps_seconds does nothing: only rounds of the preset gavel have whole steps")
        return found

    def _places(self) -> list[str]:
        study, penalty, found = self.study, self.physics.spread_penalty, []
        spans = any(_can_span(arrival.spec, self.cluster) for arrival in self.trace.arrivals)
        if not spans:
            alone = "does nothing: no job can have GPUs of several nodes here"
            found += [f"--spread-penalty {alone}"] if study.spread_penalty is not None else []
            found += [f"--wait-for-locality {alone}"] if study.wait_for_locality else []
        elif study.wait_for_locality and not self.placer.keeps_together(_JOB):
            found.append("--wait-for-locality does nothing: this placer does not keep jobs together")
        if study.spread_penalty is not None and penalty is not None and spans:
            levels = len(self.cluster.domains)
            if any(len(factors) > levels for factors in (penalty.usual, *penalty.models.values())):
                kinds = "nodes only" if levels == 1 else f"{levels} levels"
                found.append(f"--spread-penalty has more factors than the cluster has levels ({kinds}): the last do nothing")
        if penalty is not None:
            models = {arrival.spec.profile for arrival in self.trace.arrivals if arrival.spec.profile}
            plain = {plain_name(each) for each in models}
            found += [
                f"no job here is of the model {model!r}, which has a spread penalty.{closest(model, sorted(models))}"
                for model in penalty.models
                if model not in models and plain_name(model) not in plain
            ]
        if study.tensors is not None and _ignores_skew(self.placer):
            found.append("--tensors does nothing: this placer does not look at the skew of models; --placer skew does")
        return found

    def _slow_gpus(self) -> list[str]:
        study, scores, speeds, found = self.study, self.physics.variability, self.physics.gpu_speed, []
        if needs_of(self.placer).gpu_scores and scores is None:
            found.append("all GPUs of a type count as equally fast: --variability sets how slow each is")
        if scores is not None and bool((scores.scores == scores.scores[:, :1]).all()):
            found.append("--variability does nothing: all GPUs have the same score")
        if study.variability_medians and study.variability is not None and not has_runs(study.variability):
            found.append("--variability-medians does nothing: the file has scores, not runs")
        if speeds is not None and bool((speeds == speeds[0]).all()) and float(speeds[0]) == 1:
            found.append("gpu_speed does nothing: every GPU has its nominal speed")
        limit = study.cordon_slower_than
        if limit is not None:
            slowest = float(scores.scores.max()) if scores is not None else 1.0
            slowest *= float(1 / speeds.min()) if speeds is not None else 1.0
            if slowest <= limit:
                found.append(f"--cordon-slower-than {limit:g} does nothing: the slowest GPU takes {slowest:.3g} times as long")
        return found

    def _rates(self) -> list[str]:
        study, found = self.study, []
        if study.profile is not None:
            rates = self.physics.rates
            measured = {profile for profile, _, _ in (*rates.table, *rates.across_nodes)}
            scaled = frozenset(rates.model.models if isinstance(rates.model, StepTimes) else ())
            names = sorted({arrival.spec.profile for arrival in self.trace.arrivals if arrival.spec.profile})
            if not any(profile in measured or model_of(profile) in scaled for profile in names):
                near = closest(names[0], sorted(measured | scaled)) if names else ""
                found.append(f"--profile does nothing: no job has a profile of {study.profile}.{near}")
            if study.rates is not None and (study.rates.table or study.rates.across_nodes or study.rates.pairs):
                found.append("the measurements in `rates` do nothing: --profile replaces them")
        return found

    def _policy(self) -> list[str]:
        found, needs = [], needs_of(self.policy)
        if needs.several_types and len(self.cluster.pools) == 1:
            found.append("type_aware=false does nothing: the cluster has one accelerator type")
        if self.settings.colocation and not self.physics.rates.pairs:
            found.append("colocation=true does nothing: no rates of pairs are known; --profile may have them")
        specs = [arrival.spec for arrival in self.trace.arrivals]
        if needs.elastic_jobs and not any(spec.demand.elastic for spec in specs):
            who = type(self.policy).__name__.lower()
            found.append(f"{who} changes no sizes: every job here accepts one size only; --elastic batch lets jobs accept others")
        if needs.tenants and not any(spec.tenant for spec in specs):
            found.append("tenants=... does nothing: no job here has a tenant")
        if self.study.tenants is not None and not any(spec.tenant for spec in specs):
            found.append("--tenants does nothing: no job here has a tenant")
        if needs.deadlines and all(spec.deadline_seconds is None and spec.slo is None for spec in specs):
            found.append("slo=true does nothing: no job here has a deadline")
        return found


_FAILING = {"checkpoint_every_seconds": "--checkpoint-every-seconds", "node_repair_seconds": "--node-repair-seconds"}
"""Options that only matter if nodes fail -> their flags."""


def unused_costs(study: Study, record: Record) -> list[str]:
    """Return a sentence for every option that had no effect in the run."""
    found = []
    who = study.policy if isinstance(study.policy, str) else type(study.policy).__name__
    if not int(record.suspensions.sum()) and not record.outages:
        costs = [f"--{name.replace('_', '-')}" for name in ("checkpoint_seconds", "restore_seconds") if getattr(study, name)]
        costs += ["--park"] if study.park is not None else []
        if costs:
            found.append(f"{' and '.join(costs)} did nothing under {who}: no job was suspended or lost")
    if study.node_mtbf_seconds is not None and not record.outages:
        found.append("--node-mtbf-seconds did nothing: no node failed in the time that was simulated")
    return found


def _holds_memory(physics: Physics, trace: Trace) -> bool:
    """Return whether moving the GPU memory of jobs costs anything."""
    costs = physics.costs
    return any(costs.move_of(each.spec) or costs.park_of(each.spec) for each in trace.arrivals)


def _can_grow(arrival: Arrival) -> bool:
    """Return whether a job accepts more GPUs than it requests while it runs."""
    return arrival.spec.can_resize and max(arrival.spec.gpu_counts, default=0) > arrival.spec.gpus


def _can_span(spec: JobSpec, cluster: Cluster) -> bool:
    """Return whether a job may get GPUs of several nodes."""
    if spec.width < 2:
        return False
    pools = [pool for pool, name in enumerate(cluster.pools) if not spec.accelerators or name in spec.accelerators]
    return any(len(cluster.pool_nodes[pool]) > 1 and cluster.pool_gpus[pool] >= spec.width for pool in pools)


def _ignores_skew(placer: Placer) -> bool:
    """Return whether a placer treats the most and the least skewed model alike."""
    return placer.keeps_together(PlacementRequest(0, 0, 2, 0.0, skew=1.0)) == placer.keeps_together(
        PlacementRequest(0, 0, 2, 0.0, skew=0.0)
    )
