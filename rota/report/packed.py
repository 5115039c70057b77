"""Arrays and texts as a page carries them: deflated bytes in base64. `web/data.js` unpacks them."""

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from rota.model.units import Floats, Ints


def packed_groups(values: Sequence[str]) -> dict[str, Any]:
    """Pack each distinct text once, and a number for every value."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(values))}
    return {
        "names": packed_text(list(numbers)),
        "code": packed_ints(np.array([numbers[value] for value in values], dtype=np.int64)),
    }


def packed_text(values: Sequence[str]) -> dict[str, str]:
    return {"type": "text", "data": _deflated(json.dumps(values, separators=(",", ":")).encode("ascii"))}


def packed_times(seconds: Floats) -> dict[str, str]:
    """Pack times to the millisecond, which is finer than a chart shows."""
    return _packed(np.round(seconds, 3), "f64", "<f8")


def packed_ints(values: Ints) -> dict[str, str]:
    """Pack integers with as few bytes as the largest needs."""
    largest = int(values.max(initial=0))
    size = 1 if largest < 1 << 8 else 2 if largest < 1 << 16 else 4
    return _packed(values, f"u{8 * size}", f"<u{size}")


def packed_counts(values: Floats) -> dict[str, str]:
    """Pack numbers of GPUs: as integers if they are whole, otherwise to thousandths of a GPU."""
    return packed_times(values) if (values % 1).any() else packed_ints(values.astype(np.int64))


def packed_shares(values: Floats) -> dict[str, str]:
    """Pack shares from 0 to 1 in ten-thousandths. A positive share stays positive."""
    return packed_ints(np.where(values > 0, np.maximum(np.rint(10_000 * values), 1), 0).astype(np.int64))


def packed_floats(values: Floats) -> dict[str, str]:
    """Pack numbers to seven digits."""
    return _packed(values, "f32", "<f4")


def _packed(values: Floats | Ints, kind: str, little_endian: str) -> dict[str, str]:
    """Pack all first bytes, then all second bytes and so on: equal bytes in a row compress better."""
    array = np.ascontiguousarray(values, dtype=little_endian)
    return {"type": kind, "data": _deflated(array.view(np.uint8).reshape(-1, array.itemsize).T.tobytes())}


def _deflated(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data)).decode("ascii")
