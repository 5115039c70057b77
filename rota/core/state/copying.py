"""Copies of a record of the state: the containers are copied, and their immutable contents are shared."""

from typing import TypeVar

import numpy as np

from rota.core.state.job_table import JobTable
from rota.model.occupancy import Occupancy

Record = TypeVar("Record")

_CONTAINERS = frozenset({dict, set, JobTable, Occupancy})


def copied(record: Record) -> Record:
    """Return an independent copy of a record. Values in containers are immutable, so only the containers are copied, and only the
    arrays that may be written to."""
    twin: Record = record.__class__.__new__(record.__class__)
    values = twin.__dict__
    for name, value in record.__dict__.items():
        kind = type(value)
        own = kind in _CONTAINERS or (kind is np.ndarray and value.flags.writeable)
        values[name] = value.copy() if own else value
    return twin
