"""What the operator told a scheduler of rates, costs and GPUs, as the journal's configuration keeps it, and how something else
that is told later replaces it.

The configuration holds under `TOLD` what was said, by the name of its field in a study, and what was read from files that were
named: recovery and replay need no file. What a scheduler measured itself wins over what it is told. So what is told anew replaces
what was told before, and nothing that was measured:

- a measured rate stays;
- a job whose start took longer than was believed keeps that as the price of moving it;
- the score of a GPU that was measured stays, for classes that the new scores have too. What is told of it is still what the
  measurements are weighed against.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rota.beliefs.efficiency import Efficiency
from rota.beliefs.locality import Locality
from rota.beliefs.make_options import grown, renewed
from rota.beliefs.move_costs import MemoryCosts, MoveCosts
from rota.beliefs.rates import SPEEDS, Rates
from rota.beliefs.skews import Skews
from rota.beliefs.variability import Variability
from rota.core.fold import colocation
from rota.core.learn.cordon import cordon
from rota.core.settings import Settings
from rota.core.snapshot import make_codec
from rota.core.state.job_table import NO_JOB
from rota.core.state.state import State
from rota.model.codec import Plain
from rota.model.units import FOREVER, MILLI
from rota.profiles.catalogue import Catalogue
from rota.profiles.curves import published_efficiency
from rota.profiles.scaling import SOURCES, StepTimes

GIVEN = "told"
"""In a configuration: name of a field -> what was `said`, and for a file the `value` that was read from it."""
SCORED = "scored"
"""In a configuration: the names of the GPUs, by the numbers that they have when they are told their scores."""
CONTEXT = "context_gib"
"""In a configuration: what a process that is parked keeps of its GPU; not there: nothing."""
LAUNCH_SECONDS = 1.0
"""What starting a process is believed to cost before any was started."""

_CODEC = make_codec(*SOURCES)
_TABLES = ("table", "apart", "pairs", "batches")


@dataclass(frozen=True)
class GivenBeliefs:
    """What a configuration says."""

    rates: Rates
    costs: MoveCosts
    skews: Skews
    scores: Variability | None
    """Of GPUs by number; None: nothing was said of them."""

    @classmethod
    def of(cls, configuration: Mapping[str, Any]) -> "GivenBeliefs":
        told = configuration.get(GIVEN, {})
        said = {name: each["said"] for name, each in told.items()}
        read = {name: each["value"] for name, each in told.items() if "value" in each}
        return cls(
            given_rates(told),
            MoveCosts(
                said.get("launch_seconds", LAUNCH_SECONDS),
                said.get("checkpoint_seconds", 0.0),
                said.get("restore_seconds", 0.0),
                said.get("resize_seconds", 0.0),
                MemoryCosts(context_gib=configuration.get(CONTEXT, 0.0)),
            ),
            Skews(read.get("tensors", {}), Catalogue()),
            _numbered(read["variability"], configuration[SCORED]) if "variability" in read else None,
        )


def given_rates(told: Mapping[str, Mapping[str, Plain]]) -> Rates:
    """What was measured comes from the profile, the rest from the catalogue."""
    measured = _CODEC.decode(told["profile"]["value"]) if "profile" in told else Rates()
    penalty = Locality.of(told["spread_penalty"]["said"]) if "spread_penalty" in told else None
    model = measured.model if measured.model is not None else Catalogue()
    return replace(measured, speeds=SPEEDS, model=model, spread_penalty=penalty, efficiency=published_efficiency().modelled())


def plain_rates(measured: Rates) -> Plain:
    """What a file says of rates, as a configuration keeps it."""
    model = measured.model.fitted() if isinstance(measured.model, StepTimes) else None
    return _CODEC.encode(replace(measured, speeds={}, model=model, spread_penalty=None, efficiency=Efficiency()))


def plain_scores(scores: Variability, devices: Sequence[str]) -> Plain:
    """Scores by the names of the GPUs: numbers change when GPUs come and go."""
    by_name = {name: [scores.scores[:, i].tolist(), scores.spread[:, i].tolist()] for i, name in enumerate(devices)}
    return {"classes": list(scores.classes), "class_of": dict(scores.class_of), "gpus": by_name}


def scored_devices(devices: Mapping[str, Sequence[str]]) -> list[str]:
    """The names of all GPUs by number, from those of each node. A GPU that left and joined again has another number now, and the
    old one has no name."""
    names = [name for _, names in sorted(devices.items(), key=lambda each: int(each[0])) for name in names]
    last = {name: number for number, name in enumerate(names)}
    return [name if last[name] == number else "" for number, name in enumerate(names)]


def _numbered(plain: Plain, names: Sequence[str]) -> Variability:
    """GPUs of which nothing was said count as the median."""
    classes = tuple(plain["classes"])
    usual = [[1.0] * len(classes), [0.0] * len(classes)]
    found = np.array([plain["gpus"].get(name, usual) for name in names], dtype=np.float64).reshape(len(names), 2, len(classes))
    return Variability(classes, found[:, 0].T, found[:, 1].T, plain["class_of"])


def same_given(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether two configurations say the same of what is believed."""
    told = before.get(GIVEN, {}), now.get(GIVEN, {})
    if told[0] != told[1] or before.get(CONTEXT, 0.0) != now.get(CONTEXT, 0.0):
        return False
    return "variability" not in told[0] or before[SCORED] == now[SCORED]


def fitting(scores: Variability, gpus: int) -> Variability:
    """Scores of exactly so many GPUs. Those that join later are told theirs when they are there."""
    return scores.first(gpus) if scores.gpus >= gpus else scores.grown(gpus - scores.gpus)


def apply_given(state: State, before: GivenBeliefs, now: GivenBeliefs, settings: Settings) -> State:
    """The state of a scheduler that is told this, instead of what it was told before."""
    state = state.copy()
    known = state.knowledge
    known.rates = _rates(known.rates, before.rates, now.rates)
    known.skews = now.skews
    _set_costs(state, before.costs, now.costs)
    known.variability = _scores(known.variability, now.scores, state.machines.cluster.gpus)
    if known.learning is not None:
        known.learning = _scores(known.learning, now.scores, state.machines.cluster.gpus)
    known.forget_memos()
    _set_options(state, settings)
    state.set_cordoned(())  # the rule may be another, or there is none any more
    cordon(state, settings)
    state.question.invalidate()
    return state


def offer_pairs(state: State) -> State:
    """The state with options by which two jobs share GPUs, for kinds of jobs that came when no policy packed."""
    state = state.copy()
    known = state.knowledge
    known.options = grown(known.options, list(state.jobs.kind_of), state.machines.cluster, known.rates, packing=True)
    state.jobs.table.widen(known.options.accounts)
    return state


def _rates(believed: Rates, before: Rates, now: Rates) -> Rates:
    """What is believed and was not told was measured."""
    merged: dict[str, Any] = {}
    for name in _TABLES:
        known, told = getattr(believed, name), getattr(before, name)
        measured = {key: rate for key, rate in known.items() if told.get(key) != rate}
        merged[name] = {**getattr(now, name), **measured}
    return replace(now, model=now.model if believed.model == before.model else believed.model, **merged)


def _set_costs(state: State, before: MoveCosts, now: MoveCosts) -> None:
    table = state.jobs.table
    state.memory.set_context(now.memory.context_gib)
    state.knowledge.costs = now
    for column, old, new in (
        (table.move_seconds, before.move_seconds, now.move_seconds),
        (table.resize_seconds, before.resize_seconds, now.resize_seconds),
    ):
        rows = column[: table.size]
        rows[(rows == old) & (rows < FOREVER)] = new


def _scores(believed: Variability | None, told: Variability | None, gpus: int) -> Variability | None:
    """What was measured of a GPU stays, whatever is told of it."""
    if believed is None:
        return fitting(told, gpus) if told is not None else None
    fresh = fitting(told, gpus) if told is not None else Variability.alike(gpus)
    scores, spread, recent = fresh.scores.copy(), fresh.spread.copy(), {}
    for (row, gpu), (first, *latest) in believed.recent.items():
        if latest and believed.classes[row] in fresh.classes:
            place = fresh.classes.index(believed.classes[row])
            recent[place, gpu] = ((first[0], float(scores[place, gpu]), first[2]), *latest)
            scores[place, gpu], spread[place, gpu] = believed.scores[row, gpu], believed.spread[row, gpu]
    if not recent:
        return fresh
    return replace(fresh, scores=scores, spread=spread, recent=recent, first_spread=fresh.spread)


def _set_options(state: State, settings: Settings) -> None:
    """New rates for every option, and options where there were none; numbers of options stay."""
    known, table, cluster = state.knowledge, state.jobs.table, state.machines.cluster
    kinds = list(state.jobs.kind_of)
    options = renewed(known.options, kinds, cluster, known.rates, set(range(len(kinds))))
    known.options = options = grown(options, kinds, cluster, known.rates, packing=settings.packing)
    table.widen(options.accounts)
    for job, row in state.jobs.row.items():
        best = options.best.item(table.kind.item(row))
        if best >= 0:
            spec, width = state.jobs.specs[job], max(options.milligpus.item(best) // MILLI, 1)
            accelerator, batch_size = cluster.pools[options.pool.item(best)], options.batch_size.item(best)
            table.best_rate[row] = options.rate[best]
            nominal = known.rates.rate_of(spec.profile, spec.demand, accelerator, width, batch_size)[0]
            table.nominal_rate[row] = nominal or table.best_rate[row]
        state.refresh_fit(job)
    runs = ((table.using[: table.size] > 0) & (table.rate[: table.size] > 0)).nonzero()[0]
    table.rate[runs] = options.rate[options.by_account[table.kind[runs], table.account[runs]]]
    for row in runs[table.beside[runs] != NO_JOB].tolist():
        colocation.colocated_rate(state, row)
    table.rate[runs] /= [state.slowdown(job, state.jobs.attempts[job].gpus) for job in table.id[runs].tolist()]
