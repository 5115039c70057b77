"""How a record of the state is copied: its containers are its own, and what they hold is shared."""

from typing import TypeVar

import numpy as np

from rota.core.state.job_table import JobTable
from rota.model.occupancy import Occupancy

Record = TypeVar("Record")

_CONTAINERS = frozenset({dict, set, JobTable, Occupancy})


def copied(record: Record) -> Record:
    """An independent twin of a record. Values in its containers are frozen, so only the containers are copied, and of arrays only
    those that may be written to."""
    twin: Record = record.__class__.__new__(record.__class__)
    values = twin.__dict__
    for name, value in record.__dict__.items():
        kind = type(value)
        own = kind in _CONTAINERS or (kind is np.ndarray and value.flags.writeable)
        values[name] = value.copy() if own else value
    return twin
