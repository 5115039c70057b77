"""The grid: axes of values, and the cells they span. A cell is the keywords of one `rota.simulate`, as plain data."""

import functools
import hashlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rota import __version__
from rota.errors import NameUnknown, OptionError
from rota.traces.synthetic import BUILT_IN, GENERATED, reseeded

MOST_CELLS = 100_000

VARIED = (
    "round_seconds",
    "launch_seconds",
    "checkpoint_seconds",
    "restore_seconds",
    "checkpoint_every_seconds",
    "spread_penalty",
    "node_mtbf_seconds",
    "node_repair_seconds",
    "first",
)
"""Keywords of a simulation that take several values; `trace.KEY` is a setting of a generated trace, such as `trace.load`."""


@dataclass(frozen=True)
class Cell:
    """One simulation of a grid."""

    keywords: Mapping[str, Any]
    """What `rota.simulate` gets."""
    axes: Mapping[str, Any]
    """What tells it from the other cells, the seed apart."""
    seed: int
    key: str
    """The same keywords, the same files and the same version of Rota have the same key."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What to run: every policy with every trace, cluster, placer, varied value and seed."""

    policies: Sequence[str]
    traces: Sequence[str] = ("demo",)
    clusters: Sequence[str] = ("8xV100 + 8xP100 + 8xK80",)
    placers: Sequence[str] = ()
    vary: Mapping[str, Sequence[float]] = field(default_factory=dict)
    seeds: int = 1
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further keywords of `rota.simulate`, the same for all cells."""

    def __post_init__(self) -> None:
        for name in ("policies", "traces", "clusters"):
            if not getattr(self, name):
                raise OptionError("at least one is needed.", field=name, value="", hint="rota sweep --help")
        if self.seeds < 1:
            raise OptionError("must be at least 1.", field="seeds", value=self.seeds, hint="--seeds 5")
        for name in self.vary:
            if name not in VARIED and not name.startswith("trace."):
                raise NameUnknown("value to vary", name, [*VARIED, "trace.load"], hint="--vary round_seconds=60/360")
        if len(self) > MOST_CELLS:
            raise OptionError(f"more than {MOST_CELLS:,} cells.", field="grid", value=len(self), hint="fewer values on an axis")

    def __len__(self) -> int:
        axes = (self.policies, self.traces, self.clusters, self.placers or (None,), *self.vary.values())
        count = self.seeds
        for axis in axes:
            count *= len(axis)
        return count

    def samples(self) -> list[Mapping[str, Any]]:
        """Keywords in which every value of every axis stands at least once."""
        found: list[Mapping[str, Any]] = []
        lone = replace(
            self,
            policies=self.policies[:1],
            traces=self.traces[:1],
            clusters=self.clusters[:1],
            placers=self.placers[:1],
            vary={name: values[:1] for name, values in self.vary.items()},
            seeds=1,
        )
        for axis in ("policies", "traces", "clusters", "placers"):
            for value in getattr(self, axis):
                only: dict[str, Any] = {axis: (value,)}
                found.append(replace(lone, **only).cells()[0].keywords)
        for name, values in self.vary.items():
            found += [replace(lone, vary={**lone.vary, name: (value,)}).cells()[0].keywords for value in values]
        return found

    def cells(self) -> list[Cell]:
        """Every cell once, in the order of the axes."""
        found: dict[str, Cell] = {}
        prints: dict[str, str] = {}
        names = list(self.vary)
        places = itertools.product(self.policies, self.traces, self.clusters, self.placers or (None,))
        for (policy, trace, cluster, placer), values in itertools.product(places, itertools.product(*self.vary.values())):
            varied: dict[str, float] = dict(zip(names, values, strict=True))
            axes: dict[str, Any] = {"policy": policy, "trace": trace, "cluster": cluster}
            axes |= {"placer": policy.partition("+")[2] if "+" in policy else placer} if self.placers else {}
            settings = {name.removeprefix("trace."): value for name, value in varied.items() if name.startswith("trace.")}
            plain = {name: value for name, value in varied.items() if not name.startswith("trace.")}
            for extra in range(self.seeds):
                keywords = {
                    **self.options,
                    **plain,
                    "trace": str(reseeded(_with_settings(trace, settings), extra)),
                    "policy": policy,
                    "cluster": cluster,
                    "placer": None if "+" in policy else placer,
                    "seed": self.seed + extra,
                }
                key = _key(keywords, prints)
                found.setdefault(key, Cell(keywords, {**axes, **varied}, self.seed + extra, key))
        return list(found.values())


def _with_settings(trace: str, settings: Mapping[str, float]) -> str:
    """A generated trace with other settings."""
    if not settings:
        return trace
    name, _, options = BUILT_IN.get(trace, trace).partition(":")
    if name not in GENERATED or Path(trace).exists():
        raise OptionError(
            "is no generated trace, so it has no settings to vary.", field="trace", value=trace, hint="--trace synthetic:jobs=500"
        )
    given = dict(option.split("=", 1) for option in options.split(",") if "=" in option)
    given |= {key: repr(value) for key, value in settings.items()}
    return name + ":" + ",".join(f"{key}={value}" for key, value in given.items())


def _key(keywords: Mapping[str, Any], prints: dict[str, str]) -> str:
    """Files count by what is in them: one that was changed makes other cells."""
    named = [keywords["trace"], keywords["cluster"], keywords.get("profile")]
    named += re.split(r"[:+,=]", f"{keywords['policy']}+{keywords.get('placer') or ''}")
    files = {text: _fingerprint(text, prints) for text in named if text}
    whole = json.dumps(
        [__version__, _sources(), keywords, {text: found for text, found in files.items() if found}], sort_keys=True
    )
    return hashlib.sha256(whole.encode()).hexdigest()[:20]


def _fingerprint(text: str, prints: dict[str, str]) -> str:
    """Of the file of this name, if there is one."""
    if text not in prints:
        try:
            path = Path(text)
            prints[text] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        except (OSError, ValueError):
            prints[text] = ""
    return prints[text]


@functools.cache
def _sources() -> str:
    """Of this very Rota: between two versions of it a result may change too."""
    root = Path(__file__).parents[1]
    mark = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        mark.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return mark.hexdigest()
