"""Snapshots: the whole state as plain data, and back. With the events after it, a snapshot is the whole story."""

import dataclasses
from typing import Any

import numpy as np

from rota.beliefs.costs import MoveCosts
from rota.beliefs.estimate import Estimator
from rota.beliefs.locality import Locality
from rota.beliefs.rates import Rates
from rota.beliefs.skew import Skews
from rota.beliefs.variability import Variability
from rota.core.settings import Settings
from rota.core.state.job_table import JobTable
from rota.core.state.ledger import Ledger
from rota.core.state.records import Answer, Incarnation, InFlight, Verdict
from rota.errors import InputError
from rota.model import allocation, commands, events, job, plan
from rota.model.cluster import Cluster, Node
from rota.model.codec import Codec, Plain
from rota.model.occupancy import Occupancy
from rota.model.options import Kind, OptionRow, Options

VERSION = 8

EVENT_TYPES: tuple[type, ...] = (
    events.Submitted,
    events.Started,
    events.Suspended,
    events.Exited,
    events.Progressed,
    events.NodeReported,
    events.NodeLost,
    events.NodeJoined,
    events.NodeDrained,
    events.NodeLeft,
    events.Part,
    events.PartState,
    events.Outcome,
    events.CancelAsked,
    events.HoldAsked,
    events.Allocated,
    events.PolicyFailed,
    events.TimedOut,
    events.Woke,
    events.Decided,
    job.JobSpec,
    plan.Plan,
    plan.Change,
    allocation.Ranking,
    allocation.Shares,
    allocation.Assignment,
    commands.Launch,
    commands.Suspend,
    commands.Resume,
    commands.Renew,
    commands.Kill,
    commands.SuspendKind,
)
"""Everything a journal holds; the caller adds the types of the policy's memory."""

_STATE_TYPES = (
    Incarnation,
    InFlight,
    Answer,
    Verdict,
    Kind,
    Node,
    Cluster,
    Rates,
    Estimator,
    Locality,
    Variability,
    Skews,
    MoveCosts,
    Settings,
)
_DERIVED = {"jobs", "options", "_rows", "_usable", "_pool_rank", "_drawn", "_traits", "kind_of"}


def codec(*memory_types: type) -> Codec:
    """What journals and snapshots are written with."""
    return Codec(*EVENT_TYPES, *_STATE_TYPES, *memory_types)


def take(state: Ledger, words: Codec) -> Plain:
    """The ledger as plain data."""
    fields = {f.name: getattr(state, f.name) for f in dataclasses.fields(state) if f.name not in _DERIVED}
    occupancies = {name: fields.pop(name) for name in ("observed", "planned")}
    columns = {name: getattr(state.jobs, name)[: state.jobs.size] for name in (*JobTable.COLUMNS, *JobTable.ACCOUNTS)}
    return {
        "version": VERSION,
        "fields": {name: words.encode(sorted(v) if isinstance(v, set) else v) for name, v in fields.items()},
        "occupancies": {name: words.encode([each.holder, each.parts]) for name, each in occupancies.items()},
        "kinds": words.encode(list(state.kind_of)),
        "options": {name: words.encode(getattr(state.options, name)) for name in OptionRow._fields},
        "columns": {name: words.encode(column) for name, column in columns.items()},
        "dead": state.jobs.dead,
    }


def restore(plain: Plain, words: Codec) -> Ledger:
    """A ledger like the one that was taken."""
    if plain.get("version") != VERSION:
        raise InputError(
            f"this snapshot has version {plain.get('version')}, this Rota reads {VERSION}.",
            hint="use the Rota that wrote it",
        )
    values: dict[str, Any] = {name: words.decode(item) for name, item in plain["fields"].items()}
    values |= {name: Occupancy(*words.decode(item)) for name, item in plain["occupancies"].items()}
    for field in dataclasses.fields(Ledger):
        if field.name in values and str(field.type).startswith("set["):
            values[field.name] = set(values[field.name])
    columns = {name: words.decode(column) for name, column in plain["columns"].items()}
    table = JobTable(columns["received"].shape[1], max(256, 2 * len(columns["id"])))
    table.size, table.dead = len(columns["id"]), plain["dead"]
    for name, column in columns.items():
        getattr(table, name)[: table.size] = column
    state = Ledger(jobs=table, **values)
    state.kind_of = {kind: number for number, kind in enumerate(words.decode(plain["kinds"]))}
    options = [words.decode(plain["options"][name]).tolist() for name in OptionRow._fields]
    state.options = Options.of([OptionRow(*way) for way in zip(*options, strict=True)], len(state.kind_of))
    for name, value in values.items():
        if isinstance(value, np.ndarray) and not value.flags.writeable:
            setattr(state, name, value.copy())
    return state
