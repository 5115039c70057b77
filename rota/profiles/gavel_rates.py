"""Gavel's tables of throughputs (Narayanan et al., OSDI'20): JSON, by accelerator type, job and co-runner.

    {"v100": {"('ResNet-18 (batch size 16)', 1)": {"null": 32.3, "('LM (batch size 5)', 1)": [20.1, 61.7]}},
     "v100_unconsolidated": {...}}

A job is a model and a number of GPUs. `null` is its exclusive rate; a list of two has the rates of the job and of its co-runner
while they share these GPUs. Types that end in `_unconsolidated` are gangs with every GPU on another node: their exclusive rates
are kept, for jobs of more than one GPU; their pairs are checked and left out, since no policy colocates gangs that span nodes. A
rate of 0 means that the job does not run there. Rates are the steps of all workers together.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rota.beliefs.rates import Key, Rates
from rota.errors import ProfileError
from rota.files.csv_table import MAX_COUNT, MAX_NUMBER, shown
from rota.files.text import read_text
from rota.model.cluster import ACCELERATOR, canonical

APART = "_unconsolidated"

_ALONE = "null"
_EXAMPLE = "a job is a model and its GPUs: ('ResNet-18 (batch size 16)', 1)"
_JOB = re.compile(r"""\(\s*(?P<quote>['"])(?P<profile>[^'"]+)(?P=quote)\s*,\s*(?P<gpus>[1-9]\d{0,9})\s*\)""")


def read_rates(path: Path | str) -> Rates:
    """Read Gavel's JSON: exclusive rates, rates of pairs, and rates over several nodes."""
    where = str(path)
    table: dict[Key, float] = {}
    apart: dict[Key, float] = {}
    pairs: dict[tuple[str, str, str, int], tuple[float, float]] = {}
    for kind, profile, gpus, row in _rows(_parsed(read_text(path, ProfileError), where), where):
        accelerator = canonical(kind.removesuffix(APART))
        spans = kind.endswith(APART)
        for other, value in row.items():
            spot = (kind, f"('{profile}', {gpus})", other)
            if other == _ALONE:
                rate = _rate(value, where, *spot)
                if not spans:
                    table[profile, accelerator, gpus] = rate
                elif gpus > 1:
                    apart[profile, accelerator, gpus] = _running(rate, where, *spot)
            else:
                second = _partner(other, gpus, where, *spot)
                rates = _pair(value, where, *spot)
                if not spans:
                    pairs[profile, second, accelerator, gpus] = rates
    if not table:
        raise ProfileError("has no rates.", where=where, hint=_EXAMPLE)
    return Rates(table, across_nodes=apart, pairs=pairs)


def _parsed(text: str, where: str) -> Any:
    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = next(key for i, (key, _) in enumerate(pairs) if key in dict(pairs[:i]))
            raise ProfileError("is given twice.", where=where, field="key", value=shown(twice), hint="keep one of the two")
        return found

    def refuse(constant: str) -> Any:
        raise ProfileError(
            "is not a number of JSON.", where=where, field="value", value=constant, hint="leave the entry out, or give 0"
        )

    try:
        return json.loads(text, object_pairs_hook=distinct, parse_constant=refuse)
    except json.JSONDecodeError as problem:
        raise ProfileError(
            f"is not JSON: {problem.msg}.",
            where=where,
            line=problem.lineno,
            field="column",
            value=problem.colno,
            hint="python -m json.tool FILE",
        ) from None
    except (RecursionError, ValueError) as problem:
        why = "it is nested too deeply" if isinstance(problem, RecursionError) else "a number has too many digits"
        raise ProfileError(f"cannot be read as JSON: {why}.", where=where, hint="three levels: type, job, co-runner") from None


def _rows(tree: Any, where: str) -> Iterator[tuple[str, str, int, dict[str, Any]]]:
    """Yield accelerator type, profile, GPUs, and the rates, exclusive and in pairs."""
    for kind, jobs in _object(tree, where, "the file").items():
        if not ACCELERATOR.fullmatch(kind):
            raise _wrong("is not an accelerator type.", where, "the file", value=kind, hint="such as v100 or v100_unconsolidated")
        for job, row in _object(jobs, where, kind).items():
            match = _JOB.fullmatch(job)
            if match is None or int(match["gpus"]) > MAX_COUNT:
                raise _wrong("is not a job.", where, kind, value=job, hint=_EXAMPLE)
            found = _object(row, where, kind, job)
            if _ALONE not in found:
                raise _wrong(f"has no {_ALONE!r}, the rate alone.", where, kind, job, hint=f'"{_ALONE}": 109.2')
            yield kind, match["profile"], int(match["gpus"]), found


def _object(value: Any, where: str, *spot: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong("must be an object.", where, *spot, value=value, hint="three levels: type, job, co-runner")
    return value


def _rate(value: Any, where: str, *spot: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong("is not a number.", where, *spot, value=value, hint="steps per second, 0 where it does not run")
    if value < 0:
        raise _wrong("is negative.", where, *spot, value=value, hint="steps per second, 0 where it does not run")
    if not value <= MAX_NUMBER:
        raise _wrong(f"is more than {MAX_NUMBER:.0e}.", where, *spot, value=value, hint="steps per second")
    return float(value)


def _running(rate: float, where: str, *spot: str) -> float:
    # A scheduler may spread any gang that runs at all, so the rate of a spread gang must be above 0.
    if rate == 0:
        raise _wrong("must be more than 0 for a gang that spans nodes.", where, *spot, value=rate, hint="leave the job out there")
    return rate


def _pair(value: Any, where: str, *spot: str) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise _wrong("must be a list of two rates.", where, *spot, value=value, hint="[rate of the job, rate of its co-runner]")
    return _rate(value[0], where, *spot), _rate(value[1], where, *spot)


def _partner(other: str, gpus: int, where: str, *spot: str) -> str:
    match = _JOB.fullmatch(other)
    if match is None:
        raise _wrong("is not a job.", where, *spot[:-1], value=other, hint=_EXAMPLE)
    if int(match["gpus"]) != gpus:
        raise _wrong(
            "has another number of GPUs. Only jobs with equal numbers share GPUs.",
            where,
            *spot[:-1],
            value=other,
            hint=f"{gpus} GPUs for both",
        )
    return match["profile"]


def _wrong(problem: str, where: str, *spot: str, value: object = None, hint: str) -> ProfileError:
    seen = shown(value if isinstance(value, str) else json.dumps(value)) if value is not None else None
    return ProfileError(problem, where=where, field=" > ".join(shown(part) for part in spot), value=seen, hint=hint)
