"""Snapshots: the whole state as plain data, and back. A snapshot and the events after it give the state at any later time."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_origin, get_type_hints

from rota.beliefs.efficiency import Efficiency
from rota.beliefs.estimate import Estimator
from rota.beliefs.locality import Locality
from rota.beliefs.move_costs import MemoryCosts, MoveCosts
from rota.beliefs.rates import MeasuredRates, Rates
from rota.beliefs.skews import Skews
from rota.beliefs.variability import Variability
from rota.core.decision_timing import AtEvents, AtRounds, WholeSteps
from rota.core.fold.configured import Configured
from rota.core.selection import SelectionRules
from rota.core.settings import Settings
from rota.core.state.job_table import JobTable
from rota.core.state.old_prices import find_measured_prices
from rota.core.state.old_sets import OLD_SETS, restore_blocks
from rota.core.state.records import Attempt, AttemptEnd, Drain, FailedStart, InFlight, PolicyAnswer, Setback
from rota.core.state.state import State
from rota.errors import InputError
from rota.model import allocation, array_limit, commands, dependency, events, job, plan, trial
from rota.model.cluster import Cluster, Node
from rota.model.codec import Codec, Form, Plain
from rota.model.length_prediction import LengthPrediction
from rota.model.occupancy import Occupancy
from rota.model.old_names import current_fields
from rota.model.options import Kind, OptionRow, Options
from rota.model.tenants import Guarantee, Tenants

VERSION = 19
READABLE = (12, 13, 14, 15, 16, 17, 18, VERSION)
"""Fields that a later version added have their defaults. Version 15 renamed types and fields (`model/old_names.py`). Version 16
keeps in one column why a job may not be scheduled (`blocks`), of which earlier ones had sets. Version 17 adds limits, priorities,
dependencies, requests about jobs, and the accounts of tenants. Version 18 has None where earlier ones had an empty text for none,
as for a job without a profile. Version 19 adds members of tenants and limits on their jobs."""

EVENT_TYPES: tuple[type, ...] = (
    events.Submitted,
    events.Started,
    events.Suspended,
    events.Exited,
    events.Progressed,
    events.Measured,
    events.NodeReported,
    events.NodesReported,
    events.NodeLost,
    events.NodeJoined,
    events.NodeDrainChanged,
    events.GpusTaken,
    events.GpusDrained,
    events.GpusUndrained,
    events.DrainCancelled,
    events.NodeRemoved,
    events.NodeReadmitted,
    events.NodeLeft,
    events.InventoryItem,
    events.ProcessState,
    events.Outcome,
    events.CancelRequested,
    events.HoldRequested,
    events.RequeueRequested,
    events.JobChanged,
    events.Attached,
    events.Allocated,
    events.PolicyFailed,
    events.PolicyTimedOut,
    events.TimerFired,
    events.Decided,
    Configured,
    job.JobSpec,
    job.Demand,
    array_limit.ArrayLimit,
    dependency.Dependency,
    dependency.When,
    plan.Plan,
    plan.PlacementChange,
    trial.Trial,
    trial.TrialVerdict,
    allocation.Ranking,
    allocation.Shares,
    allocation.Assignment,
    commands.Launch,
    commands.Suspend,
    commands.Resume,
    commands.Resize,
    commands.Renew,
    commands.Kill,
    commands.SuspendKind,
)
"""Types that a journal holds. The caller adds the types of the policy's memory."""

_STATE_TYPES = (
    Attempt,
    InFlight,
    Setback,
    PolicyAnswer,
    AttemptEnd,
    FailedStart,
    Drain,
    Kind,
    Node,
    Cluster,
    Rates,
    MeasuredRates,
    Efficiency,
    Estimator,
    Locality,
    Variability,
    Skews,
    MoveCosts,
    MemoryCosts,
    Settings,
    AtEvents,
    AtRounds,
    WholeSteps,
    SelectionRules,
    Tenants,
    Guarantee,
)


def make_codec(*memory_types: type, forms: Mapping[type, Form] | None = None) -> Codec:
    """Return the codec of snapshots and journals."""
    return Codec(*EVENT_TYPES, *_STATE_TYPES, *memory_types, forms=forms)


def take(state: State, codec: Codec) -> Plain:
    """Return the state as plain data: its clock, and each of its records. Caches, whose names begin with `_`, are left out."""
    records = {name: _take_record(getattr(state, name), codec) for name in _RECORDS}
    return {"version": VERSION, "now_s": codec.encode(state.now_s), **records}


def restore(plain: Plain, codec: Codec, given: Rates | None = None) -> State:
    """Return the state of a snapshot. `given`: the rates that the scheduler had been given then. Older snapshots have measured
    rates only among all others."""
    if plain.get("version") not in READABLE:
        raise InputError(
            f"this snapshot has version {plain.get('version')}, this Rota reads {READABLE[0]} to {VERSION}.",
            hint="use the Rota that wrote it",
        )
    plain = current_fields(State.__name__, plain)
    records = {name: _restore_record(kind, plain.get(name, {}), codec) for name, kind in _RECORDS.items()}
    known = records["beliefs"]
    if "measured" not in plain["beliefs"] and given is not None:
        records["beliefs"] = dataclasses.replace(known, measured=MeasuredRates.found_in(known.rates, given))
    state = State(now_s=codec.decode(plain["now_s"]), **records)
    if plain["version"] < 16:
        restore_blocks(state, {name: codec.decode(plain["jobs"][name]) for name in OLD_SETS})
    if plain["version"] < 17:
        find_measured_prices(state)
    return state


_RECORDS: dict[str, type] = {
    name: kind for name, kind in get_type_hints(State).items() if isinstance(kind, type) and dataclasses.is_dataclass(kind)
}


def _fields_of(record: type) -> dict[str, Any]:
    """Return the fields of a record that a snapshot keeps, with their types."""
    types = get_type_hints(record)
    return {
        field.name: types[field.name] for field in dataclasses.fields(record) if field.init and not field.name.startswith("_")
    }


def _take_record(record: object, codec: Codec) -> Plain:
    shapes = {name: _shape(kind) for name, kind in _fields_of(type(record)).items()}
    return {name: codec.encode(shape.pack(getattr(record, name))) for name, shape in shapes.items()}


def _restore_record(record: type, plain: Plain, codec: Codec) -> Any:
    """Return a record. A field that the snapshot lacks gets its default."""
    plain = current_fields(record.__name__, plain)
    shapes = {name: _shape(kind) for name, kind in _fields_of(record).items() if name in plain}
    return record(**{name: shape.unpack(codec.decode(plain[name])) for name, shape in shapes.items()})


class _Shape(NamedTuple):
    """How a value that the codec cannot encode becomes one that it can, and back."""

    pack: Callable[[Any], Any]
    unpack: Callable[[Any], Any]


def _shape(kind: Any) -> _Shape:
    return _SET if get_origin(kind) is set else _SHAPES.get(kind, _AS_IT_IS)


def _pack_options(options: Options) -> tuple[int, list[Any], tuple[int, ...]]:
    return len(options.by_kind), [getattr(options, name) for name in OptionRow._fields], options.lasting


def _unpack_options(packed: tuple[Any, ...]) -> Options:
    """Return options. Earlier versions kept no GPUs of pools; then they are as if no node had left."""
    kinds, columns, *lasting = packed
    rows = [OptionRow(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    return Options.of(rows, kinds, *map(tuple, lasting))


_AS_IT_IS = _Shape(lambda value: value, lambda value: value)
_SET = _Shape(sorted, set)
_SHAPES: dict[Any, _Shape] = {
    JobTable: _Shape(JobTable.pack, JobTable.unpack),
    Options: _Shape(_pack_options, _unpack_options),
    Occupancy: _Shape(lambda held: [held.holder, held.gpu_fractions], lambda packed: Occupancy(*packed)),
    dict[trial.PairKey, trial.PairStats]: _Shape(
        lambda pairs: {key: tuple(seen) for key, seen in pairs.items()},
        lambda packed: {key: trial.PairStats(*seen) for key, seen in packed.items()},
    ),
    tuple[LengthPrediction, ...]: _Shape(
        lambda made: [tuple(each) for each in made], lambda packed: tuple(LengthPrediction(*each) for each in packed)
    ),
    dict[Kind, int]: _Shape(list, lambda kinds: {kind: number for number, kind in enumerate(kinds)}),
}
