"""The grid of a sweep: axes of values, and a cell for each combination."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rota.compose.fingerprint import Fingerprints
from rota.compose.limits import MAX_SEEDS
from rota.compose.registry import PLACER_REGISTRY, POLICY_REGISTRY, split_pair
from rota.compose.study import CLUSTER, Study, make_study, read_field
from rota.errors import OptionError
from rota.experiments.cell import Cell, make_cell
from rota.experiments.vary_options import PARTS, check_varied, takes, with_options, with_settings
from rota.traces.read_trace import STDIN
from rota.traces.synthetic import reseeded

MAX_CELLS = 100_000

AXES = ("policies", "traces", "clusters", "placers")
"""Fields of a grid that are axes."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The grid of a sweep: every policy with every trace, cluster, placer, varied value and seed."""

    policies: Sequence[str]
    traces: Sequence[str] = ("demo",)
    clusters: Sequence[str] = (CLUSTER,)
    placers: Sequence[str] = ()
    vary: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Values of a field of a study, of an option (`policy.thresholds`, `placer.sticky`) or of a setting of generated traces
    (`trace.load`). A text is read like the value of the field's flag. An option is varied for the policies or placers that have
    it; the others have one cell, whose value on that axis is None."""
    seeds: int = 1
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the studies, equal for all cells."""

    def __post_init__(self) -> None:
        for name in ("policies", "traces", "clusters"):
            if not getattr(self, name):
                raise OptionError("at least one is needed.", field=name, value="", hint="rota sweep --help")
        if not 1 <= self.seeds <= MAX_SEEDS:
            raise OptionError(f"must be from 1 to {MAX_SEEDS:,}.", field="seeds", value=self.seeds, hint="--seeds 5")
        if STDIN in self.traces:
            problem = "is standard input, which the processes of a sweep cannot read."
            raise OptionError(problem, field="trace", value=STDIN, hint="write the trace to a file first")
        for name in self.vary:
            check_varied(name)
        if len(self) > MAX_CELLS:
            raise OptionError(f"more than {MAX_CELLS:,} cells.", field="grid", value=len(self), hint="fewer values on an axis")

    def __len__(self) -> int:
        axes = (self.policies, self.traces, self.clusters, self.placers or (None,), *self.vary.values())
        count = self.seeds
        for axis in axes:
            count *= len(axis)
        return count

    def samples(self) -> list[Study]:
        """Return studies in which every value of every axis occurs at least once."""
        lone: dict[str, Sequence[Any]] = {axis: getattr(self, axis)[:1] for axis in AXES}
        first = {name: values[:1] for name, values in self.vary.items()}
        found: list[Study] = []
        for axis in AXES:
            for value in getattr(self, axis):
                found += [study for study, _ in self._studies({**lone, axis: (value,)}, first, seeds=1)]
        for name, values in self.vary.items():
            for value in values:
                found += [study for study, _ in self._studies(lone, {**first, name: (value,)}, seeds=1)]
        return found

    def cells(self) -> list[Cell]:
        """Return every cell once, in the order of the axes."""
        found: dict[str, Cell] = {}
        fingerprints = Fingerprints()
        for study, axes in self._studies({axis: getattr(self, axis) for axis in AXES}, self.vary, self.seeds):
            cell = make_cell(study, axes, fingerprints)
            found.setdefault(cell.key, cell)
        return list(found.values())

    def _studies(
        self, among: Mapping[str, Sequence[Any]], vary: Mapping[str, Sequence[Any]], seeds: int
    ) -> Iterator[tuple[Study, dict[str, Any]]]:
        """Yield every study of these values, with its values on the axes. Some may be equal."""
        names = list(vary)
        places = itertools.product(*(among[axis] or (None,) for axis in AXES))
        for (policy, trace, cluster, placer), values in itertools.product(places, itertools.product(*vary.values())):
            varied = dict(zip(names, values, strict=True))
            axes: dict[str, Any] = {"policy": policy, "trace": trace, "cluster": cluster}
            axes |= {"placer": split_pair(policy)[1] or placer} if self.placers else {}
            varied = {name: value for name, value in varied.items() if self._concerns(name, policy, placer)}
            axes |= {name: _shown(varied.get(name)) for name in names}
            own = {part: _under(varied, part) for part in PARTS}
            policy_named, placer_named = _with_both(policy, placer, own["policy."], own["placer."])
            plain = {name: _read(name, value) for name, value in varied.items() if not name.startswith(PARTS)}
            for extra in range(seeds):
                fields = {
                    **self.options,
                    **plain,
                    "trace": str(reseeded(with_settings(trace, own["trace."]), extra)),
                    "policy": policy_named,
                    "cluster": cluster,
                    "placer": placer_named,
                    "seed": self.seed + extra,
                }
                yield make_study(fields), axes

    def _concerns(self, name: str, policy: str, placer: str | None) -> bool:
        """Whether a varied value applies to this policy with this placer. An option that none of them has applies to all, so that
        making them raises an error."""
        alone, pair = split_pair(policy)
        if name.startswith("policy."):
            option, mine = name.removeprefix("policy."), alone
            every, registry = [split_pair(each)[0] for each in self.policies], POLICY_REGISTRY
        elif name.startswith("placer."):
            option, mine = name.removeprefix("placer."), pair or placer or "packed"
            pairs = [split_pair(each)[1] for each in self.policies]
            free = list(self.placers) or ["packed"]
            every, registry = [*filter(None, pairs), *(free if None in pairs else [])], PLACER_REGISTRY
        else:
            return True
        return takes(mine, registry, option) or not any(takes(each, registry, option) for each in every)


def _under(varied: Mapping[str, Any], part: str) -> dict[str, Any]:
    """Return the varied values of one part, such as `{"load": 0.5}` of `trace.`."""
    return {name.removeprefix(part): value for name, value in varied.items() if name.startswith(part)}


def _with_both(
    policy: str, placer: str | None, of_policy: Mapping[str, Any], of_placer: Mapping[str, Any]
) -> tuple[str, str | None]:
    """Return the policy and the placer with their varied options. A placer after a plus stays there."""
    alone, pair = split_pair(policy)
    alone = with_options(alone, "policy", of_policy)
    if pair is not None:
        return f"{alone}+{with_options(pair, 'placer', of_placer)}", None
    return alone, with_options(placer or "packed", "placer", of_placer) if of_placer else placer


def _read(name: str, value: Any) -> Any:
    """Return the value of a field. A text is read like the value of a flag."""
    if not isinstance(value, str):
        return value
    try:
        return read_field(name, value)
    except ValueError as problem:
        raise OptionError(str(problem), field=name, value=value, hint="rota sweep --help") from None


def _shown(value: Any) -> Any:
    """Return a value as it is shown in tables and files."""
    return value if value is None or isinstance(value, str | int | float) else str(value)
