"""From the flags that `rota up` shares with `rota sim` to what the journal's configuration keeps of them.

The values are fields of a `Study` and are read and checked as a study's are, with the same errors. Files are read here, once:
what they say goes into the configuration, so that a restart, a recovery or a replay does not need them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.beliefs.rates import Rates
from rota.compose.limits import check_limits
from rota.compose.live_fields import LIVE, REMEMBERED_FIELDS
from rota.compose.parse_tactics import make_tactics
from rota.compose.prepare import check_gpus, make_physics, named_parts, when_to_decide
from rota.compose.study import Study
from rota.core.decision_timing import AtEvents, DecisionTiming
from rota.errors import OptionError, UnknownNameError
from rota.files.csv_table import closest
from rota.live.given_beliefs import plain_rates, plain_scores
from rota.model.cluster import Cluster
from rota.model.codec import Plain
from rota.profiles.catalogue import Catalogue
from rota.profiles.tensors import read_tensors
from rota.profiles.variability_files import read_variability

GivenFlags = Mapping[str, Mapping[str, Plain]]
"""As `rota.live.given_beliefs` has it."""

_ROUND = 360.0
"""A round that is long enough for a check of the other fields."""


@dataclass(frozen=True)
class LiveFlags:
    """What was given on the command line, checked, with its files read."""

    policy: str | None
    placer: str | None
    told: GivenFlags


def read_flags(given: Mapping[str, Any], cluster: Cluster, devices: Sequence[str]) -> LiveFlags:
    """Whatever is wrong with one of them is said here. `devices`: the names of the cluster's GPUs."""
    for name in given:
        if name not in LIVE:
            raise UnknownNameError("flag of rota up", name, LIVE, hint="rota up --help")
    study = Study(trace="", **given)
    check_limits(study)
    physics = make_physics(study, {"rates": Rates(model=Catalogue())}, cluster)
    check_gpus(study, physics, ("variability_medians",))
    if study.decide is not None:
        when_to_decide(AtEvents(), study.decide, study.round_seconds or _ROUND)
    make_tactics(study.tactics)
    if "policy" in given:
        named_parts(study)
    told: dict[str, dict[str, Plain]] = {name: {"said": given[name]} for name in REMEMBERED_FIELDS if name in given}
    if study.profile is not None:
        told["profile"] = {"said": _absolute(study.profile), "value": plain_rates(physics.rates)}
    if study.tensors is not None:
        told["tensors"] = {"said": _absolute(study.tensors), "value": read_tensors(study.tensors)}
    if study.variability is not None:
        scores = read_variability(study.variability, cluster, study.seed, not study.variability_medians)
        told["variability"] = {"said": _absolute(study.variability), "value": plain_scores(scores, devices)}
    return LiveFlags(given.get("policy"), given.get("placer"), told)


def forgettable(names: Iterable[str]) -> tuple[str, ...]:
    """Fields by their flags, with or without dashes before; `all`: every one."""
    plain = [name.strip().removeprefix("--").replace("-", "_") for each in names for name in each.split(",")]
    for name in plain:
        if name not in (*REMEMBERED_FIELDS, "all"):
            kept = [each.replace("_", "-") for each in REMEMBERED_FIELDS]
            problem = f"a home keeps no such flag.{closest(name.replace('_', '-'), kept)}"
            raise OptionError(problem, field="--forget", value=name.replace("_", "-"), hint=f"one of {', '.join(kept)}, or all")
    return REMEMBERED_FIELDS if "all" in plain else tuple(plain)


def merge_given(before: GivenFlags, given: GivenFlags, forgotten: Iterable[str] = ()) -> GivenFlags:
    """What holds from now on. How runs become scores is told with the file of the runs, and goes with it."""
    gone = {*forgotten}
    if "variability" in {*given, *gone}:
        gone.add("variability_medians")
    return {**{name: each for name, each in before.items() if name not in gone}, **given}


def given_decision_timing(told: GivenFlags) -> DecisionTiming:
    """When the scheduler decides."""
    said = {name: each["said"] for name, each in told.items()}
    return when_to_decide(AtEvents(), said.get("decide"), said.get("round_seconds"))


def describe_given_changes(before: GivenFlags, now: GivenFlags) -> list[str]:
    """For the operator: what goes on as it was, and what has changed."""
    same = [_flag(name, now[name]) for name in REMEMBERED_FIELDS if name in now and now[name] == before.get(name)]
    found = [f"as before: {', '.join(same)}"] if same else []
    for name in REMEMBERED_FIELDS:
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if new is None and old is not None:
            found.append(f"no longer: {_flag(name, old)}")
        elif new is not None and old is None:
            found.append(f"new: {_flag(name, new)}")
        elif new is not None and old is not None and new["said"] == old["said"]:
            found.append(f"changed: {_flag(name, new)}, whose contents are others than before")
        elif new is not None and old is not None:
            found.append(f"changed: {_flag(name, new)}, before {_value(old)}")
    return found


def _flag(name: str, told: Mapping[str, Plain]) -> str:
    flag = f"--{name.replace('_', '-')}"
    return flag if told["said"] is True else f"{flag} {_value(told)}"


def _value(told: Mapping[str, Plain]) -> str:
    value = told["said"]
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _absolute(path: str | Path) -> str:
    return str(Path(path).resolve())
