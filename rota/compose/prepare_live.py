"""Reads the flags that `rota up` shares with `rota sim`.

Their values are fields of a `Study`, and are checked as a study's are, with the same errors. Files are read here, once. A home
keeps their contents, so a restart, a recovery or a replay does not need them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.beliefs.rates import Rates
from rota.compose.limits import check_limits
from rota.compose.live_fields import LIVE, REMEMBERED_FIELDS
from rota.compose.make_setup import find_parts, when_to_decide
from rota.compose.parse_tactics import make_tactics
from rota.compose.prepare import check_gpus, make_physics
from rota.compose.study import Study
from rota.compose.tenants_yaml import check_tenants, read_tenants
from rota.core.decision_timing import AtEvents
from rota.errors import OptionError, UnknownNameError
from rota.files.csv_table import closest
from rota.live.given_beliefs import GivenFlag, GivenFlags, plain_rates, plain_scores, plain_tenants
from rota.model.cluster import Cluster
from rota.profiles.catalogue import Catalogue
from rota.profiles.tensors import read_tensors
from rota.profiles.variability_files import read_variability

_ROUND = 360.0
"""Length of a round with which the other fields are checked, in seconds."""


@dataclass(frozen=True)
class LiveFlags:
    """Flags of the command line, checked, with their files read."""

    policy: str | None
    placer: str | None
    given: GivenFlags


def read_flags(given: Mapping[str, Any], cluster: Cluster, devices: Sequence[str]) -> LiveFlags:
    """Return the flags of a start. Raise for the first mistake. `devices`: names of the cluster's GPUs."""
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
        find_parts(study)
    flags = {name: GivenFlag(given[name]) for name in REMEMBERED_FIELDS if name in given}
    if study.profile is not None:
        flags["profile"] = GivenFlag(_absolute(study.profile), plain_rates(physics.rates))
    if study.tensors is not None:
        flags["tensors"] = GivenFlag(_absolute(study.tensors), read_tensors(study.tensors))
    if study.tenants is not None:
        tenants = read_tenants(study.tenants)
        check_tenants(tenants, cluster, str(study.tenants))
        flags["tenants"] = GivenFlag(_absolute(study.tenants), plain_tenants(tenants))
    if study.variability is not None:
        scores = read_variability(study.variability, cluster, study.seed, not study.variability_medians)
        flags["variability"] = GivenFlag(_absolute(study.variability), plain_scores(scores, devices))
    return LiveFlags(given.get("policy"), given.get("placer"), flags)


def forgettable(names: Iterable[str]) -> tuple[str, ...]:
    """Return the fields of these flags, which may begin with dashes. `all` means every flag that a home keeps."""
    plain = [name.strip().removeprefix("--").replace("-", "_") for each in names for name in each.split(",")]
    for name in plain:
        if name not in (*REMEMBERED_FIELDS, "all"):
            kept = [each.replace("_", "-") for each in REMEMBERED_FIELDS]
            problem = f"a home keeps no such flag.{closest(name.replace('_', '-'), kept)}"
            raise OptionError(problem, field="--unset", value=name.replace("_", "-"), hint=f"one of {', '.join(kept)}, or all")
    return REMEMBERED_FIELDS if "all" in plain else tuple(plain)


def merge_given(before: GivenFlags, given: GivenFlags, forgotten: Iterable[str] = ()) -> GivenFlags:
    """Return the flags from now on. How runs become scores belongs to the file of the runs, and goes with it."""
    gone = {*forgotten}
    if "variability" in {*given, *gone}:
        gone.add("variability_medians")
    return {**{name: each for name, each in before.items() if name not in gone}, **given}


def describe_given_changes(before: GivenFlags, now: GivenFlags) -> list[str]:
    """Return lines for the operator: which flags stay, and which have changed."""
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
        elif new is not None and old is not None and new.text == old.text:
            found.append(f"changed: {_flag(name, new)}, whose contents have changed")
        elif new is not None and old is not None:
            found.append(f"changed: {_flag(name, new)}, before {_value(old)}")
    return found


def _flag(name: str, given: GivenFlag) -> str:
    flag = f"--{name.replace('_', '-')}"
    return flag if given.text is True else f"{flag} {_value(given)}"


def _value(given: GivenFlag) -> str:
    value = given.text
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _absolute(path: str | Path) -> str:
    return str(Path(path).resolve())
