"""Units and the few numbers every room needs."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

FOREVER = math.inf
"""An instant that never comes, and a length that never ends."""

MILLI = 1000
"""GPUs are counted in thousandths, so that a fraction of a GPU is still a whole number."""

SHORTEST_HOLD_SECONDS = 1e-3
"""No answer expires sooner than this, so that a policy which always says "now" cannot stop time."""

Ints = npt.NDArray[np.signedinteger[Any]]
"""Whole numbers of any width: tables use no more than they need, since forecasts copy them."""
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def frozen_ints(values: object) -> Ints:
    """An int64 array nobody can write to."""
    array = np.array(values, dtype=np.int64)
    array.setflags(write=False)
    return array


def milligpus_of(gpus: float) -> int:
    """GPUs in thousandths."""
    return round(gpus * MILLI)


def width_of(gpus: float) -> int:
    """On how many GPUs so much runs: a part of a GPU is on one."""
    return max(int(gpus), 1)
