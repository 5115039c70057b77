"""Encodes views and answers as plain data, so that a policy can run in another process.

The memory of a policy is an opaque text here. Only the process that has the policy reads and writes it.
"""

import dataclasses
import json
import sys
from enum import Enum
from types import SimpleNamespace
from typing import Any

import numpy as np

from rota.model.allocation import Allocation, Assignment, Ranking, Shares
from rota.model.cluster import Cluster, Node
from rota.model.codec import Codec, Plain
from rota.model.columns import columns_of
from rota.model.length_prediction import LengthPredictions
from rota.model.options import Options
from rota.model.policy import Policy
from rota.model.view import JobColumns, Jobs, View

VIEW_CODEC = Codec(Ranking, Shares, Assignment, Options, Cluster, Node, LengthPredictions)

COLUMNS = tuple(columns_of(JobColumns))


def encode_view(view: View) -> Plain:
    """Return everything that a policy may see at this moment."""
    table, rows = view.jobs._table, view.jobs._rows
    return {
        "columns": {name: VIEW_CODEC.encode(getattr(table, name)[rows]) for name in COLUMNS},
        "now_s": view.now_s,
        "options": VIEW_CODEC.encode(view.options),
        "cluster": VIEW_CODEC.encode(view.cluster),
        "capacity": VIEW_CODEC.encode(view.capacity),
        "tenants": list(view.tenants),
        "history": VIEW_CODEC.encode(view.history_gpu_seconds),
        "memory": view.memory,
        "usable": None if view.usable is None else VIEW_CODEC.encode(view.usable),
        "predictions": None if view.predictions is None else VIEW_CODEC.encode(view.predictions),
        "placements": [[job, gpus.tolist()] for job, gpus in view.placements.items()],
        "seed": view.seed,
        "decision": view.decision,
    }


def decode_view(plain: Plain, memory: Any) -> View:
    """Return the view, with the memory of the policy."""
    columns = {name: VIEW_CODEC.decode(column) for name, column in plain["columns"].items()}
    for column in columns.values():
        column.setflags(write=False)
    count = len(columns["id"])
    table: Any = SimpleNamespace(**columns)
    options: Options = VIEW_CODEC.decode(plain["options"])
    return View(
        now_s=plain["now_s"],
        jobs=Jobs(table, np.arange(count), plain["now_s"], options),
        options=options,
        cluster=VIEW_CODEC.decode(plain["cluster"]),
        capacity=VIEW_CODEC.decode(plain["capacity"]),
        tenants=tuple(plain["tenants"]),
        history_gpu_seconds=VIEW_CODEC.decode(plain["history"]),
        memory=memory,
        seed=plain["seed"],
        decision=plain["decision"],
        usable=None if plain["usable"] is None else VIEW_CODEC.decode(plain["usable"]),
        predictions=None if plain["predictions"] is None else VIEW_CODEC.decode(plain["predictions"]),
        placements={job: np.array(gpus, dtype=np.int64) for job, gpus in plain["placements"]},
    )


def encode_answer(answer: Allocation, memories: Codec) -> Plain:
    """Return an allocation, with the memory of the policy as a text of its own."""
    kept: Any = answer
    memory = None if answer.memory is None else json.dumps(memories.encode(answer.memory))
    return {"allocation": VIEW_CODEC.encode(dataclasses.replace(kept, memory=None)), "memory": memory}


def decode_answer(plain: Plain) -> Allocation:
    """Return the allocation as the core keeps it: the memory of the policy stays a text."""
    kept: Any = VIEW_CODEC.decode(plain["allocation"])
    answer: Allocation = dataclasses.replace(kept, memory=plain["memory"])
    return answer


def memory_types(policy: Policy) -> list[type]:
    """Return the dataclasses and enums in the policy's own file. Its memory consists of these."""
    module = sys.modules[type(policy).__module__]
    seen = [value for value in vars(module).values() if isinstance(value, type)]
    return [kind for kind in seen if dataclasses.is_dataclass(kind) or issubclass(kind, Enum)]


def memory_codec(policy: Policy) -> Codec:
    return Codec(*memory_types(policy))
