"""Units, array types and the few numbers that all rooms use."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

FOREVER = math.inf
"""An instant that never comes, or a length that never ends."""

MILLI = 1000
"""Thousandths in a GPU. GPUs are counted in thousandths, so that fractions are whole numbers."""

MIN_HOLD_SECONDS = 1e-3
"""Minimum time for which an answer holds, in seconds. Otherwise a policy that always answers "until now" would stop time."""

Ints = npt.NDArray[np.signedinteger[Any]]
"""Integers of any width. Tables use the smallest that is sufficient, since forecasts copy them."""
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def frozen_ints(values: object) -> Ints:
    """Return a read-only int64 array."""
    array = np.array(values, dtype=np.int64)
    array.setflags(write=False)
    return array


def milligpus_of(gpus: float) -> int:
    """Return GPUs in thousandths."""
    return round(gpus * MILLI)


def width_of(gpus: float) -> int:
    """Return the number of GPUs that this many run on. A fraction runs on one."""
    return max(int(gpus), 1)
