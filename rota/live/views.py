"""A view as plain data, so that a policy can be asked in another process; and its answer back.

What a policy remembers is its own business: here it is an opaque text, written and read by the process that knows the policy.
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
from rota.model.length_prediction import Foresight
from rota.model.options import Options
from rota.model.policy import Policy
from rota.model.view import JobColumns, Jobs, View

WORDS = Codec(Ranking, Shares, Assignment, Options, Cluster, Node, Foresight)

COLUMNS = tuple(JobColumns.__annotations__)


def encode_view(view: View) -> Plain:
    """Everything a policy may see, read now."""
    table, rows = view.jobs._table, view.jobs._rows
    return {
        "columns": {name: WORDS.encode(getattr(table, name)[rows]) for name in COLUMNS},
        "now_s": view.now_s,
        "options": WORDS.encode(view.options),
        "cluster": WORDS.encode(view.cluster),
        "capacity": WORDS.encode(view.capacity),
        "tenants": list(view.tenants),
        "history": WORDS.encode(view.history_gpu_seconds),
        "memory": view.memory,
        "usable": None if view.usable is None else WORDS.encode(view.usable),
        "foresight": None if view.foresight is None else WORDS.encode(view.foresight),
        "held": [[job, gpus.tolist()] for job, gpus in view.held.items()],
        "seed": view.seed,
        "decision": view.decision,
    }


def decode_view(plain: Plain, memory: Any) -> View:
    """The same view, for a policy."""
    columns = {name: WORDS.decode(column) for name, column in plain["columns"].items()}
    for column in columns.values():
        column.setflags(write=False)
    count = len(columns["id"])
    table: Any = SimpleNamespace(**columns)
    options: Options = WORDS.decode(plain["options"])
    return View(
        now_s=plain["now_s"],
        jobs=Jobs(table, np.arange(count), plain["now_s"], options),
        options=options,
        cluster=WORDS.decode(plain["cluster"]),
        capacity=WORDS.decode(plain["capacity"]),
        tenants=tuple(plain["tenants"]),
        history_gpu_seconds=WORDS.decode(plain["history"]),
        memory=memory,
        seed=plain["seed"],
        decision=plain["decision"],
        usable=None if plain["usable"] is None else WORDS.decode(plain["usable"]),
        foresight=None if plain["foresight"] is None else WORDS.decode(plain["foresight"]),
        held={job: np.array(gpus, dtype=np.int64) for job, gpus in plain["held"]},
    )


def encode_answer(answer: Allocation, memories: Codec) -> Plain:
    """An allocation, its memory apart and as text."""
    kept: Any = answer
    memory = None if answer.memory is None else json.dumps(memories.encode(answer.memory))
    return {"allocation": WORDS.encode(dataclasses.replace(kept, memory=None)), "memory": memory}


def decode_answer(plain: Plain) -> Allocation:
    """The allocation as the core books it: its memory stays a text."""
    kept: Any = WORDS.decode(plain["allocation"])
    answer: Allocation = dataclasses.replace(kept, memory=plain["memory"])
    return answer


def memory_types(policy: Policy) -> list[type]:
    """The types that the policy's own file knows: what a policy remembers is made of these."""
    module = sys.modules[type(policy).__module__]
    seen = [value for value in vars(module).values() if isinstance(value, type)]
    return [kind for kind in seen if dataclasses.is_dataclass(kind) or issubclass(kind, Enum)]


def memory_codec(policy: Policy) -> Codec:
    return Codec(*memory_types(policy))
