"""Writes the answers of policies to the journal, each as its difference from the answer before it.

An answer has columns with a number for each job, in the order of the jobs that the policy was called about. When a job comes or
goes, every position behind it changes. So two answers are compared by the numbers of their jobs, and one more job in a queue of
thousands costs a few bytes, whatever the policy. The memory of a policy is a text to the scheduler. Arrays in it are columns too.

An answer is written whole if its difference would not give it back bit for bit. All columns are compressed.
"""

import base64
import json
import zlib
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np

from rota.errors import JournalError
from rota.model.allocation import Allocation
from rota.model.codec import Codec, Plain, plain_array
from rota.model.old_names import current_fields
from rota.model.units import Bools, Ints

WHOLE_EVERY = 200
"""Longest chain of answers that build on each other. Reading an answer reads all answers since the last whole one."""
SHORT = 300
"""Length up to which a difference is not compared with the whole, in characters."""
LONG_TEXT = 1000
"""Length from which a text is compressed, in characters."""

Column = np.ndarray[Any, Any]
Orders = ("order", "position")
"""Fields of allocations that hold positions of jobs, in order of preference."""


class KeptAnswer(NamedTuple):
    """An answer in parts, and its place in the journal."""

    number: int
    """Number of the entry."""
    depth: int
    """Number of answers that must be read before this one."""
    ids: Ints | None
    """Jobs that the answer is about, in rising order; None if they are unknown."""
    text: str
    """The answer without its columns, as JSON."""
    columns: dict[str, Column]


Find = Callable[[int], KeptAnswer]
"""Returns the answer in the entry with this number."""


def write_answer(
    allocation: Allocation, ids: Ints | None, number: int, before: KeptAnswer | None, codec: Codec
) -> tuple[Plain, KeptAnswer]:
    """Return an answer as entry `number` keeps it, and its parts, with which the next answer is compared. `ids`: jobs that the
    answer is about."""
    text, columns = _taken_apart(allocation, codec)
    known = ids is not None and bool(len(ids)) and bool((np.diff(ids) > 0).all())
    kept = KeptAnswer(number, 0, ids if known else None, text, columns)
    if before is not None and before.ids is not None and kept.ids is not None and before.depth + 1 < WHOLE_EVERY:
        plain = _difference(kept, before)
        if same_answer(read_answer(plain, number, lambda _: before), kept):
            return plain, kept._replace(depth=before.depth + 1)
    return _whole(kept), kept


def read_answer(plain: Plain, number: int, find: Find) -> KeptAnswer:
    """Return the parts of an answer that `write_answer` has written."""
    if "since" not in plain:
        ids = None if plain["ids"] is None else _numbers(plain["ids"])
        columns = {name: _numbers(each) for name, each in plain["columns"].items()}
        return KeptAnswer(number, 0, ids, _long(plain["text"]), columns)
    before = find(plain["since"])
    if before.ids is None:
        raise JournalError(f"entry {number} builds on entry {before.number}, which does not say which jobs it is about.")
    gone, come = (_numbers(each) for each in plain["ids"])
    ids = np.union1d(before.ids[~np.isin(before.ids, gone)], come)
    head, tail, middle = plain["text"]
    text = before.text[:head] + _long(middle) + before.text[len(before.text) - tail :]
    jobs = before.ids, ids
    columns = {name: _column_again(each, before.columns.get(name), *jobs) for name, each in plain["columns"].items()}
    return KeptAnswer(number, before.depth + 1, ids, text, columns)


def make_answer(kept: KeptAnswer, codec: Codec) -> Allocation:
    """Return the answer that has these parts."""
    skeleton = json.loads(kept.text)
    values: dict[str, Any] = {}
    for name, (how, plain) in current_fields(skeleton["type"], skeleton["fields"]).items():
        if how == "column":
            values[name] = kept.columns[name].copy()
        elif how == "text":
            values[name] = json.dumps(_with_arrays(plain, kept.columns))
        else:
            values[name] = codec.decode(plain)
    made: Allocation = codec.named(skeleton["type"])(**values)
    return made


def same_answer(one: KeptAnswer, other: KeptAnswer) -> bool:
    """Return whether two answers are the same, bit for bit."""
    return (
        one.text == other.text
        and one.columns.keys() == other.columns.keys()
        and all(_same(column, other.columns[name]) for name, column in one.columns.items())
    )


# Parts -----------------------------------------------------------------------------------------------------------


def _taken_apart(allocation: Allocation, codec: Codec) -> tuple[str, dict[str, Column]]:
    found: dict[str, Any] = {}
    columns: dict[str, Column] = {}
    for each in fields(allocation):
        value = getattr(allocation, each.name)
        if not each.init:
            continue
        if isinstance(value, np.ndarray) and value.dtype.itemsize in (1, 2, 4, 8):
            columns[each.name] = _little(value)
            found[each.name] = "column", None
        elif isinstance(value, str) and (inside := _arrays_in(value, each.name)) is not None:
            found[each.name] = "text", inside[0]
            columns |= inside[1]
        else:
            found[each.name] = "plain", codec.encode(value)
    skeleton = {"type": type(allocation).__name__, "fields": found}
    return json.dumps(skeleton, separators=(",", ":")), columns


def _arrays_in(text: str, name: str) -> tuple[Plain, dict[str, Column]] | None:
    """Return the memory of a policy with its arrays as columns; None if the text has no arrays of this form."""
    if '"array"' not in text:
        return None
    columns: dict[str, Column] = {}

    def without(plain: Plain) -> Plain:
        if isinstance(plain, list):
            return [without(each) for each in plain]
        if not isinstance(plain, dict):
            return plain
        if plain.keys() == {"array", "shape", "data"}:
            key = f"{name}.{len(columns)}"
            columns[key] = np.frombuffer(base64.b64decode(plain["data"]), dtype=np.dtype(plain["array"])).reshape(plain["shape"])
            return {"column": key}
        return {key: without(each) for key, each in plain.items()}

    try:
        plain = without(json.loads(text))
        return (plain, columns) if json.dumps(_with_arrays(plain, columns)) == text else None
    except (ValueError, TypeError):
        return None


def _with_arrays(plain: Plain, columns: dict[str, Column]) -> Plain:
    if isinstance(plain, list):
        return [_with_arrays(each, columns) for each in plain]
    if not isinstance(plain, dict):
        return plain
    if plain.keys() == {"column"}:
        return plain_array(columns[plain["column"]])
    return {key: _with_arrays(each, columns) for key, each in plain.items()}


# Whole, and as a difference --------------------------------------------------------------------------------------


def _whole(kept: KeptAnswer) -> Plain:
    columns = {name: _packed(column) for name, column in kept.columns.items()}
    return {"ids": None if kept.ids is None else _packed(kept.ids), "text": _short(kept.text), "columns": columns}


def _difference(kept: KeptAnswer, before: KeptAnswer) -> Plain:
    assert kept.ids is not None and before.ids is not None
    jobs = before.ids, kept.ids
    gone, come = np.setdiff1d(before.ids, kept.ids, assume_unique=True), np.setdiff1d(kept.ids, before.ids, assume_unique=True)
    head = _common(kept.text, before.text)
    tail = _common(kept.text[head:][::-1], before.text[head:][::-1])
    return {
        "since": before.number,
        "ids": [_packed(gone), _packed(come)],
        "text": [head, tail, _short(kept.text[head : len(kept.text) - tail])],
        "columns": {name: _column(name, column, before.columns.get(name), *jobs) for name, column in kept.columns.items()},
    }


def _common(one: str, other: str) -> int:
    """Return the length of the longest common prefix."""
    if one == other:
        return len(one)
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _column(name: str, column: Column, before: Column | None, ids_before: Ints, ids: Ints) -> Plain:
    """Return a column as JSON: its difference from the column before, or all of it if that is shorter."""
    if before is None or before.dtype != column.dtype or before.ndim != column.ndim:
        return _packed(column)
    plain: Plain = None
    if name in Orders and column.ndim == 1 and column.dtype.kind in "iu":
        plain = _order(column, before, ids_before, ids)
    elif _per_job(column, ids) and _per_job(before, ids_before) and before.shape[:-1] == column.shape[:-1]:
        changed = (_bits(column) - _bits(_aligned(before, ids_before, ids))).ravel()
        at = changed.nonzero()[0]
        plain = [_packed(at), _packed(changed[at])] if len(at) * 4 < len(changed) else _packed(changed)
        plain = {"changed": plain, "shape": list(column.shape)}
    if plain is not None and (size := len(json.dumps(plain))) <= SHORT:
        return plain
    whole = _packed(column)
    return whole if plain is None or len(whole) <= size else plain


def _column_again(plain: Plain, before: Column | None, ids_before: Ints, ids: Ints) -> Column:
    if isinstance(plain, str):
        return _numbers(plain)
    assert before is not None
    if "put" in plain:
        return _order_again(plain, before, ids_before, ids)
    base = np.ascontiguousarray(_aligned(before, ids_before, ids))
    flat = _bits(base).ravel().copy()
    if isinstance(plain["changed"], str):
        flat += _numbers(plain["changed"])
    else:
        at, by = (_numbers(each) for each in plain["changed"])
        flat[at] += by
    return flat.view(before.dtype).reshape(plain["shape"])


def _per_job(column: Column, ids: Ints) -> bool:
    return column.ndim >= 1 and column.shape[-1] == len(ids)


def _aligned(before: Column, ids_before: Ints, ids: Ints) -> Column:
    """Return the column before, in the order of these jobs; 0 for new jobs."""
    found = np.minimum(ids_before.searchsorted(ids), len(ids_before) - 1)
    known = ids_before[found] == ids
    base = np.zeros((*before.shape[:-1], len(ids)), dtype=before.dtype)
    base[..., known] = before[..., found[known]]
    return base


# An order of jobs ------------------------------------------------------------------------------------------------


def _order(column: Column, before: Column, ids_before: Ints, ids: Ints) -> Plain:
    """Return the difference of two orders: the jobs that left, and the jobs that were put in new places. All others keep their
    order. None if an order names a job twice."""
    if not (_names_jobs(column, ids) and _names_jobs(before, ids_before)):
        return None
    old, new = ids_before[before], ids[column]
    stay_old, stay_new = old[np.isin(old, new)], new[np.isin(new, old)]
    moved = stay_new[:0]
    if len(differ := (stay_old != stay_new).nonzero()[0]):
        part = slice(int(differ[0]), int(differ[-1]) + 1)
        ranks = np.argsort(stay_old[part])[np.searchsorted(np.sort(stay_old[part]), stay_new[part])]
        moved = stay_new[part][~_rising(ranks)]
    at = (~np.isin(new, old) | np.isin(new, moved)).nonzero()[0]
    return {"off": _packed(old[~np.isin(old, new)]), "at": _packed(at), "put": _packed(new[at])}


def _order_again(plain: Plain, before: Column, ids_before: Ints, ids: Ints) -> Column:
    off, at, put = (_numbers(plain[key]) for key in ("off", "at", "put"))
    old = ids_before[before]
    stay = old[~np.isin(old, np.concatenate([off, put]))]
    new = np.empty(len(stay) + len(put), dtype=ids.dtype)
    stands = np.ones(len(new), dtype=bool)
    stands[at] = False
    new[at], new[stands] = put, stay
    return ids.searchsorted(new).astype(before.dtype)


def _names_jobs(column: Column, ids: Ints) -> bool:
    """Return whether these are positions of different jobs."""
    if not len(column):
        return True
    if column.min() < 0 or column.max() >= len(ids):
        return False
    seen = np.zeros(len(ids), dtype=bool)
    seen[column] = True
    return int(np.count_nonzero(seen)) == len(column)


def _rising(ranks: Ints) -> Bools:
    """Return which of these distinct numbers belong to a longest increasing subsequence."""
    best: list[int] = []
    ends: list[int] = []
    """Positions of the smallest numbers that end an increasing subsequence of each length. `best` has the numbers."""
    before: list[int] = []
    for i, rank in enumerate(ranks.tolist()):
        length = bisect_left(best, rank)
        if length == len(best):
            best.append(rank)
            ends.append(i)
        else:
            best[length], ends[length] = rank, i
        before.append(ends[length - 1] if length else -1)
    found = np.zeros(len(ranks), dtype=bool)
    i = ends[-1] if ends else -1
    while i >= 0:
        found[i] = True
        i = before[i]
    return found


# Numbers as text -------------------------------------------------------------------------------------------------


def _packed(column: Column) -> str:
    """Return type, shape, and the differences between neighbours, with the first bytes of all numbers first. Regular columns get
    short."""
    bits = _bits(column).ravel()
    steps = np.diff(bits, prepend=bits[:1] - bits[:1])
    raw = steps.view(np.uint8).reshape(len(bits), bits.dtype.itemsize).T.tobytes()
    shape = ",".join(str(size) for size in column.shape)
    return f"{_little(column).dtype.str};{shape};{base64.b64encode(zlib.compress(raw, 6)).decode('ascii') if raw else ''}"


def _numbers(text: str) -> Column:
    kind, sizes, data = text.split(";")
    dtype, shape = np.dtype(kind), tuple(int(size) for size in sizes.split(",") if size)
    raw = np.frombuffer(zlib.decompress(base64.b64decode(data)) if data else b"", dtype=np.uint8)
    steps = np.ascontiguousarray(raw.reshape(dtype.itemsize, -1).T).view(f"<u{dtype.itemsize}").ravel()
    return np.add.accumulate(steps, dtype=steps.dtype).view(dtype).reshape(shape)


def _bits(column: Column) -> Column:
    column = np.ascontiguousarray(_little(column))
    return column.view(f"<u{column.dtype.itemsize}")


def _little(column: Column) -> Column:
    return column.astype(column.dtype.newbyteorder("<"), copy=False)


def _same(one: Column, other: Column) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def _short(text: str) -> Plain:
    if len(text) < LONG_TEXT:
        return text
    return {"packed": base64.b64encode(zlib.compress(text.encode(), 6)).decode("ascii")}


def _long(plain: Plain) -> str:
    return plain if isinstance(plain, str) else zlib.decompress(base64.b64decode(plain["packed"])).decode()
