"""The functions of the Python interface."""

import gc
import inspect
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from rota.compose.docstrings import field_docstrings
from rota.compose.idle_options import unused_costs
from rota.compose.limits import MAX_SEEDS
from rota.compose.placer_check import check_placer
from rota.compose.policy_faults import explain_fault, with_columns
from rota.compose.prepare import PreparedStudy, prepare_study
from rota.compose.registry import is_placer, make_placer, make_policy
from rota.compose.study import Filters, Study, make_study
from rota.core.learn.cordon import slow_gpus
from rota.errors import AssumptionWarning, OptionError, RotaError
from rota.model.policy import Policy
from rota.report.comparison import Comparison
from rota.report.given_up import given_up_notes
from rota.report.metrics import summarise
from rota.report.predictions import PredictionsSummary
from rota.report.result import Result
from rota.report.tenants_summary import TenantsSummary
from rota.report.thrash import thrash_notes
from rota.report.trials_summary import TrialsSummary
from rota.sim.conformance import LIMIT_SECONDS, Finding, check_policy
from rota.sim.engine import Progress
from rota.traces.synthetic import open_trace, reseeded
from rota.traces.trace import Trace

__all__ = ["PreparedStudy", "check", "compare", "prepare", "run_study", "simulate"]

Fields = ParamSpec("Fields")
Returned = TypeVar("Returned")


def _with_fields_of(kind: Callable[Fields, Study]) -> Callable[[Callable[..., Returned]], Callable[Fields, Returned]]:
    """Decorate a function that takes the fields of a study as keywords. Its signature and help then list all of them."""

    def dress(function: Callable[..., Returned]) -> Callable[Fields, Returned]:
        signature = inspect.signature(kind)
        returns = inspect.signature(function).return_annotation
        function.__signature__ = signature.replace(return_annotation=returns)  # type: ignore[attr-defined]
        texts = field_docstrings(kind) if isinstance(kind, type) else {}
        listed = [f"    {name}: {' '.join(texts.get(name, '').split())}" for name in signature.parameters]
        function.__doc__ = f"{inspect.getdoc(function)}\n\n" + "\n".join(listed)
        return function

    return dress


@dataclass(frozen=True, kw_only=True)
class _SimulateKeywords(Study):
    """Keywords of `simulate`: the fields of a study, and `progress`."""

    progress: Progress | None = None
    """Function called regularly with the number of finished jobs, the number of jobs, and the simulated time in seconds."""


@_with_fields_of(_SimulateKeywords)
def simulate(trace: str | Path | Trace, *, progress: Progress | None = None, **fields: Any) -> Result:
    """Simulate a trace under a policy on a cluster.

    The keywords are the fields of `Study`. Keywords for costs, such as `launch_seconds`, override the preset. If an input is
    unknown, Rota makes an assumption, issues an `AssumptionWarning`, and adds it to the notes of the result.
    """
    result = run_study(make_study({"trace": trace, **fields}), progress)
    warn_assumptions(result.assumptions)
    return result


@_with_fields_of(Study)
def prepare(trace: str | Path | Trace, **fields: Any) -> PreparedStudy:
    """Prepare a simulation as `simulate` does. Raise if an argument is wrong."""
    return prepare_study(make_study({"trace": trace, **fields}))


def run_study(study: Study, progress: Progress | None = None, opened: Trace | None = None) -> Result:
    """Simulate a study. `opened` is its trace if it is open already."""
    ready = prepare_study(study, opened)
    started = time.perf_counter()
    engine = ready.engine(progress)
    gc.freeze()  # garbage collections during the run need not look at the trace
    try:
        record = engine.run()
    except RotaError as problem:
        explain_fault(problem)
        raise
    finally:
        gc.unfreeze()
    state, physics, arrivals = engine.scheduler.state, ready.physics, ready.trace.arrivals
    summary = summarise(
        record,
        arrivals,
        ready.cluster,
        physics,
        window=ready.window,
        rounds=state.cycle.plans,
        decisions=record.decisions,
        decision_seconds=record.decision_seconds,
        simulated_in_seconds=time.perf_counter() - started,
        peak_memory_mb=_peak_memory_mb(),
    )
    notes = [*slow_gpus(state), *thrash_notes(record, arrivals, physics), *unused_costs(study, record)]
    ready.params["notes"] += [*notes, *given_up_notes(record)]
    return Result(
        summary,
        ready.params,
        record,
        arrivals,
        ready.cluster,
        physics.variability,
        state.beliefs.variability,
        tuple(sorted(state.out_of_service())),
        trials=TrialsSummary.of(state.beliefs) if ready.setup.settings.tactics else None,
        predictions=PredictionsSummary.of(state.beliefs) if ready.setup.settings.needs_predictions else None,
        tenants=TenantsSummary.of(state, record, arrivals) if ready.setup.tenants is not None else None,
        assumptions=ready.assumptions,
        study=study,
    )


def warn_assumptions(guesses: Iterable[str]) -> None:
    """Issue an AssumptionWarning for each assumption, at the caller of the function that calls this."""
    for guess in guesses:
        warnings.warn(guess, AssumptionWarning, stacklevel=3)


def compare(
    policies: Sequence[str | Policy],
    *,
    trace: str | Path | Trace = "demo",
    placers: Sequence[str] = (),
    seeds: int = 1,
    seed: int = 0,
    format: str = "auto",
    where: Filters = (),
    workers: int = 1,
    progress: Callable[[str, int, int, float], None] | None = None,
    **fields: Any,
) -> Comparison:
    """Simulate the same jobs under several policies. Further keywords are those of `simulate`.

    `A+B` is policy A with placer B. With several `placers`, every policy without a placer of its own runs with each. For each
    seed, all policies get the same jobs and the same random events. A generated trace is generated again for each seed; a file
    is the same for all. If the first two seeds give the same results because nothing is random, no further seeds run, and a note
    states this. `workers` is the number of processes.
    """
    if not 1 <= seeds <= MAX_SEEDS:
        raise OptionError(f"must be from 1 to {MAX_SEEDS:,}.", field="seeds", value=seeds, hint="--seeds 5")
    if workers < 1:
        raise OptionError("must be at least 1.", field="workers", value=workers, hint="--workers 2")
    contenders = _contenders(policies, placers)
    runs: dict[str, list[Result]] = {label: [] for label in contenders}

    def studies(extra: int) -> dict[str, Study]:
        jobs = trace if isinstance(trace, Trace) else reseeded(trace, extra)
        shared = {**fields, "trace": jobs, "format": format, "where": where, "seed": seed + extra}
        return {label: make_study({**shared, "policy": each[0], "placer": each[1]}) for label, each in contenders.items()}

    with _runner(workers, progress) as run:
        for extra in range(seeds):
            for label, result in run(studies(extra)).items():
                runs[label].append(result)
            if extra == 1 and extra + 1 < seeds and nothing_random(runs.values()):
                note = f"--seeds {seeds} does nothing more than --seeds 2: both gave the same, and nothing here is random"
                for results in runs.values():
                    results[0].params["notes"].append(note)
                break
    whole = Comparison(runs)
    warn_assumptions(dict.fromkeys(guess for result in whole for guess in result.assumptions))
    return whole


Runner = Callable[[Mapping[str, Study]], dict[str, Result]]


@contextmanager
def _runner(workers: int, progress: Callable[[str, int, int, float], None] | None) -> Iterator[Runner]:
    """Yield a function that runs studies of one trace, one after the other in this process or in worker processes."""
    if workers == 1:
        yield partial(_run_in_turn, progress=progress)
        return
    # A forked process would inherit locks that threads of this process hold.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        try:
            yield partial(_run_apart, pool=pool, progress=progress)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _run_in_turn(studies: Mapping[str, Study], progress: Callable[[str, int, int, float], None] | None) -> dict[str, Result]:
    opened, found = None, {}
    for label, study in studies.items():
        if opened is None and not isinstance(study.trace, Trace):
            opened = open_trace(study.trace, format=study.format, where=study.filters)
        found[label] = run_study(study, partial(progress, label) if progress is not None else None, opened)
    return found


def _run_apart(
    studies: Mapping[str, Study], pool: ProcessPoolExecutor, progress: Callable[[str, int, int, float], None] | None
) -> dict[str, Result]:
    running = {pool.submit(run_study, study): label for label, study in studies.items()}
    for future in as_completed(running):
        jobs = len(future.result().arrivals)
        if progress is not None:
            progress(running[future], jobs, jobs, 0.0)
    return {label: future.result() for future, label in running.items()}


def nothing_random(runs: Iterable[Sequence[Result]]) -> bool:
    """Return whether two seeds of every policy gave the same results, and the study has no random part."""
    for first, second in (results[:2] for results in runs):
        study = second.study
        if first.study.trace != study.trace:
            return False
        if study.measurement_noise or study.known_rates is not None or study.variability is not None or second.record.outages:
            return False
        if study.node_mtbf_seconds is not None or not np.array_equal(first.record.finished_s, second.record.finished_s):
            return False
    return True


def _contenders(policies: Sequence[str | Policy], placers: Sequence[str]) -> dict[str, tuple[str | Policy, str | None]]:
    """Return label in the table -> policy and placer."""
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


def check(
    policy: str | Policy,
    *,
    seeds: int = 20,
    limit_seconds: float = LIMIT_SECONDS,
    progress: Callable[[Finding], None] | None = None,
) -> list[Finding]:
    """Run the property suite on a policy or a placer, each property for at most `limit_seconds`. `progress` gets each finding at
    once."""
    if seeds < 1:
        raise OptionError("must be at least 1.", field="seeds", value=seeds, hint="--seeds 20")
    if not limit_seconds > 0:
        raise OptionError("must be more than 0.", field="limit_seconds", value=limit_seconds, hint="--limit-seconds 60")
    if isinstance(policy, str) and is_placer(policy):
        make_placer(policy)
        made = check_placer(lambda: make_placer(policy), seeds, limit_seconds)
    else:
        make_policy(policy)  # an unknown name is the caller's mistake, not the policy's
        made = check_policy(lambda: make_policy(policy), seeds, limit_seconds)
    findings: list[Finding] = []
    listed = False
    for finding in made:
        story = finding.story if listed else with_columns(finding.story)  # the columns are listed once
        listed = listed or story != finding.story
        findings.append(replace(finding, story=story))
        if progress is not None:
            progress(findings[-1])
    return findings


def _peak_memory_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)
