"""Workloads of Kueue, as `kubectl get workloads --all-namespaces -o json` prints them: one JSON list.

A workload is submitted at its `creationTimestamp`. Its run time is from its last admission to its end, by its conditions
`Admitted` and `Finished`; a job has one step per second of it, and no profile. GPUs are what the containers of all pods request,
or are limited to: every resource whose name ends in `/gpu`, such as `nvidia.com/gpu`. The namespace becomes the tenant, and the
label `user`, if there is one, the user. Skipped: workloads without GPUs, and those that were never admitted or had not finished.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rota.errors import TraceError
from rota.files.csv_table import MAX_COUNT, CsvRow, FileTable, Lines, shown
from rota.model.job import Arrival, JobSpec
from rota.traces.format import Format
from rota.traces.parts import NO_GPU, NO_TIME
from rota.traces.trace import SkippedRow

COLUMNS = ("name", "namespace", "queue", "user", "created", "admitted", "finished", "gpus")
_HINT = "kubectl get workloads --all-namespaces -o json"


@dataclass(frozen=True)
class Workloads(FileTable):
    """Workloads as rows, each at the line where it begins."""

    found: tuple[CsvRow, ...] = ()

    def rows(self) -> Iterator[CsvRow]:
        yield from self.found


def arrival(row: CsvRow) -> Arrival | SkippedRow:
    gpus = row.whole("gpus", least=0)
    if not gpus:
        return SkippedRow(row.line, NO_GPU)
    if not row.text("admitted"):
        return SkippedRow(row.line, "was never admitted")
    if not row.text("finished"):
        return SkippedRow(row.line, "had not ended")
    seconds = _instant(row, "finished") - _instant(row, "admitted")
    if seconds <= 0:
        return SkippedRow(row.line, NO_TIME)
    spec = JobSpec(name=row.text("name"), gpus=gpus, steps=seconds, tenant=row.text("namespace"), user=row.text("user"))
    return Arrival(_instant(row, "created"), spec)


def _instant(row: CsvRow, column: str) -> float:
    try:
        found = datetime.fromisoformat(row.text(column).replace("Z", "+00:00"))
        if found.tzinfo is None:
            raise ValueError
        return found.timestamp()
    except (ValueError, OverflowError):
        raise row.wrong(column, "is not a time of Kubernetes.", hint="write it like 2026-01-05T09:00:00Z") from None


def _is_json(file: Lines) -> bool:
    return file.lines[file.first_line - 1].lstrip()[:1] in ("{", "[")


def _table(file: Lines) -> FileTable:
    text = "\n".join(file.lines)
    rows = tuple(CsvRow(file.where, line, _cells(item, file.where, line), TraceError) for line, item in _items(text, file))
    return Workloads(file.where, file.lines, file.first_line, COLUMNS, TraceError, found=rows)


def _items(text: str, file: Lines) -> Iterator[tuple[int, Any]]:
    """Yield the items of the list, each with the line where it begins."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as problem:
        line = getattr(problem, "lineno", file.first_line)
        why = getattr(problem, "msg", "it is nested too deeply")
        raise TraceError(f"is not JSON: {why}.", where=file.where, line=line, hint=_HINT) from None
    listed = whole.get("items") if isinstance(whole, dict) else whole
    if not isinstance(listed, list):
        raise TraceError("has no list of workloads.", where=file.where, line=file.first_line, field="items", hint=_HINT)
    places = _places(text, isinstance(whole, dict))
    if len(places) != len(listed):  # two lists have the same name
        places = [file.first_line] * len(listed)
    yield from zip(places, listed, strict=True)


def _places(text: str, wrapped: bool) -> list[int]:
    """Return the lines at which the items of a JSON list begin. The text is known to be JSON."""
    decoder, place = json.JSONDecoder(), 0
    place = _after(text, text.index("{" if wrapped else "[") + 1)
    while wrapped:  # the keys before the list
        key, place = decoder.raw_decode(text, place)
        place = _after(text, text.index(":", place) + 1)
        if key == "items" and text[place] == "[":
            place = _after(text, place + 1)
            break
        place = _after(text, decoder.raw_decode(text, place)[1])
        if text[place] == ",":
            place = _after(text, place + 1)
    lines, line, counted = [], 1, 0
    while text[place] != "]":
        line, counted = line + text.count("\n", counted, place), place
        lines.append(line)
        place = _after(text, decoder.raw_decode(text, place)[1])
        if text[place] == ",":
            place = _after(text, place + 1)
    return lines


def _after(text: str, place: int) -> int:
    """Return the next place that is not blank."""
    while text[place] in " \t\n\r":
        place += 1
    return place


def _cells(item: Any, where: str, line: int) -> dict[str, str]:
    """Return a workload as cells."""
    if _get(item, "kind") not in (None, "Workload"):
        raise TraceError(
            "is not a Workload.", where=where, line=line, field="kind", value=shown(str(_get(item, "kind"))), hint=_HINT
        )
    meta, spec = _get(item, "metadata"), _get(item, "spec")
    if not isinstance(meta, dict) or not isinstance(spec, dict):
        missing = "spec" if isinstance(meta, dict) else "metadata"
        raise TraceError("a workload needs this.", where=where, line=line, field=missing, hint=_HINT)
    conditions = _get(item, "status", "conditions")
    times = {
        str(_get(each, "type")): str(_get(each, "lastTransitionTime") or "")
        for each in (conditions if isinstance(conditions, list) else ())
        if _get(each, "status") == "True"
    }
    cells = {
        "name": _get(meta, "name"),
        "namespace": _get(meta, "namespace"),
        "queue": _get(spec, "queueName"),
        "user": _get(meta, "labels", "user"),
        "created": _get(meta, "creationTimestamp"),
        "admitted": times.get("Admitted") or times.get("QuotaReserved"),
        "finished": times.get("Finished"),
        "gpus": _gpus(spec, where, line),
    }
    return {name: "" if value is None else " ".join(str(value).split()) for name, value in cells.items()}


def _gpus(spec: Mapping[str, Any], where: str, line: int) -> int:
    """Return the GPUs of all pods of a workload."""
    total = 0
    for pods in _list(spec.get("podSets")):
        count = _whole(_get(pods, "count") if _get(pods, "count") is not None else 1, "podSets.count", where, line)
        containers = _list(_get(pods, "template", "spec", "containers"))
        total += count * sum(_of_container(each, where, line) for each in containers)
    return total


def _of_container(container: Any, where: str, line: int) -> int:
    asked: dict[str, int] = {}
    for kind in ("limits", "requests"):
        given = _get(container, "resources", kind)
        for name, value in given.items() if isinstance(given, dict) else ():
            if str(name).endswith("/gpu"):
                asked[str(name)] = _whole(value, f"resources.{kind}.{name}", where, line)
    return sum(asked.values())


def _whole(value: Any, field: str, where: str, line: int) -> int:
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()) or int(text[:20]) > MAX_COUNT:
        raise TraceError(
            "is not a number of GPUs or pods.", where=where, line=line, field=shown(field), value=shown(text), hint=_HINT
        )
    return int(text)


def _get(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


KUEUE = Format("kueue", arrival, wall_clock=True, parse=_table, recognises=_is_json)
