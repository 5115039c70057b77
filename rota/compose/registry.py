"""Find policies, placers and tactics by name: built in, installed as a plug-in, declared in Python, or in a file of the user."""

import importlib
import importlib.abc
import importlib.metadata
import importlib.util
import os
import sys
import types
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from rota.compose.option_syntax import ParsedName, fit
from rota.core.plan.tactic import Tactic
from rota.errors import OptionError, RotaError, UnknownNameError
from rota.files.csv_table import closest
from rota.files.inputs import absolute_input, input_is_file, read_input
from rota.model.placement_view import Placer
from rota.model.policy import Policy

POLICIES = {
    "fifo": "rota.policies.fifo:Fifo",
    "sjf": "rota.policies.sjf:Sjf",
    "srtf": "rota.policies.srtf:Srtf",
    "srsf": "rota.policies.srsf:Srsf",
    "las": "rota.policies.las:Las",
    "tiresias": "rota.policies.tiresias:Tiresias",
    "gittins": "rota.policies.gittins:Gittins",
    "gandiva": "rota.policies.gandiva:Gandiva",
    "max-min-fairness": "rota.policies.max_min_fairness:MaxMinFairness",
    "gavel": "rota.policies.max_min_fairness:MaxMinFairness",
    "hierarchical": "rota.policies.hierarchical:Hierarchical",
    "finish-time-fairness": "rota.policies.finish_time_fairness:FinishTimeFairness",
    "makespan": "rota.policies.makespan:Makespan",
    "max-throughput": "rota.policies.max_throughput:MaxThroughput",
    "min-cost": "rota.policies.min_cost:MinCost",
    "allox": "rota.policies.allox:Allox",
    "isolated": "rota.policies.isolated:Isolated",
    "ones": "rota.policies.ones:Ones",
    "optimus": "rota.policies.optimus:Optimus",
    "goodput": "rota.policies.goodput:Goodput",
}
PLACERS = {
    "packed": "rota.placers.packed:Packed",
    "spread": "rota.placers.spread:Spread",
    "random": "rota.placers.random:Random",
    "skew": "rota.placers.skew:Skew",
    "pm-first": "rota.placers.pm_first:PmFirst",
    "pal": "rota.placers.pal:Pal",
}
TACTICS = {
    "pack": "rota.tactics.pack:Pack",
    "grow": "rota.tactics.grow:Grow",
    "defragment": "rota.tactics.defragment:Defragment",
    "migrate": "rota.tactics.migrate:Migrate",
}

T = TypeVar("T", bound=type)


def _has_method(name: str) -> Callable[[type], bool]:
    return lambda kind: callable(getattr(kind, name, None))


def _is_tactic(kind: type) -> bool:
    return issubclass(kind, Tactic) and kind.__module__ != Tactic.__module__


@dataclass(frozen=True)
class Registry:
    """Names of policies, of placers or of tactics, and where to find them."""

    what: str
    group: str
    """Group of entry points in which plug-ins register."""
    builtin: dict[str, str]
    accepts: Callable[[type], bool]
    """Returns whether a class is a policy, a placer or a tactic."""
    mark: str
    """The method or base class that such a class needs, for messages."""
    hint: str
    """The next step in the message about an unknown name."""
    declared: dict[str, type] = field(default_factory=dict)

    def names(self) -> list[str]:
        plugins = [point.name for point in importlib.metadata.entry_points(group=self.group)]
        return sorted({*self.builtin, *self.declared, *plugins})

    def find(self, name: str) -> type:
        """Return the class of a name."""
        if name in self.declared:
            return self.declared[name]
        if name in self.builtin:
            module, _, attribute = self.builtin[name].partition(":")
            return self._checked(getattr(importlib.import_module(module), attribute), name)
        path, _, attribute = name.partition(":")
        if path.endswith(".py"):
            return self._checked(_from_file(self, Path(path), attribute), name)
        for point in importlib.metadata.entry_points(group=self.group):
            if point.name == name:
                try:
                    return self._checked(point.load(), name)
                except (ImportError, AttributeError) as problem:
                    hint = f"reinstall {point.dist.name if point.dist else 'the package that offers it'}"
                    raise OptionError(
                        f"the plug-in cannot be loaded ({problem}).", field=self.what, value=name, hint=hint
                    ) from problem
        several = [part.strip() for part in name.split(",")]
        if len(several) > 1 and all(part in self.names() for part in several):
            raise OptionError("has a comma.", field=self.what, value=name, hint=f"separate them by spaces: {' '.join(several)}")
        raise UnknownNameError(self.what, name, self.names(), hint=self.hint)

    def _checked(self, found: Any, name: str) -> type:
        if not isinstance(found, type) or not self.accepts(found):
            problem = f"is not a {self.what}: it has no {self.mark}."
            raise OptionError(problem, field=self.what, value=name, hint=f"a class with the {self.mark}")
        return found

    def make(self, text: str, usual: Mapping[str, Mapping[str, str]] | None = None) -> Any:
        """Construct the class that a text names. `usual` has default options of some names, which the text may override."""
        spelled = ParsedName.parse(text, self.what)
        return fit(self.find(spelled.name), {**(usual or {}).get(spelled.name, {}), **spelled.options}, spelled.name)


_HINT = "rota policy list, or a file: ./mine.py:Mine"
_TACTIC_HINT = "--tactics pack, or pack:settle_seconds=120,min_gain=0.1, or a file: ./mine.py:Mine"

POLICY_REGISTRY = Registry("policy", "rota.policies", POLICIES, _has_method("allocate"), "method allocate", _HINT)
PLACER_REGISTRY = Registry("placer", "rota.placers", PLACERS, _has_method("place"), "method place", _HINT)
TACTIC_REGISTRY = Registry("tactic", "rota.tactics", TACTICS, _is_tactic, "base class rota.Tactic", _TACTIC_HINT)


def policy(name: str) -> Callable[[T], T]:
    """Declare a policy class under a name. In this process it can then be used like a built-in policy."""
    return _declare(POLICY_REGISTRY, name)


def placer(name: str) -> Callable[[T], T]:
    """Declare a placer class under a name. In this process it can then be used like a built-in placer."""
    return _declare(PLACER_REGISTRY, name)


def tactic(name: str) -> Callable[[T], T]:
    """Declare a tactic class under a name. In this process it can then be used like a built-in tactic."""
    return _declare(TACTIC_REGISTRY, name)


def _declare(registry: Registry, name: str) -> Callable[[T], T]:
    def keep(kind: T) -> T:
        if name in registry.builtin:
            raise OptionError(f"a built-in {registry.what} has this name.", field=registry.what, value=name, hint="another name")
        registry.declared[name] = registry._checked(kind, name)
        return kind

    return keep


def make_policy(given: str | Policy, usual: Mapping[str, Mapping[str, str]] | None = None) -> Policy:
    if isinstance(given, type):
        raise OptionError("is a class, not a policy.", field="policy", value=given.__name__, hint=f"{given.__name__}()")
    made: Policy = POLICY_REGISTRY.make(given, usual) if isinstance(given, str) else given
    return made


def make_placer(given: str | Placer, usual: Mapping[str, Mapping[str, str]] | None = None) -> Placer:
    made: Placer = PLACER_REGISTRY.make(given, usual) if isinstance(given, str) else given
    return made


def is_placer(text: str) -> bool:
    """Return whether a text names a placer and not a policy."""
    name = ParsedName.parse(text, "policy").name
    if name in POLICY_REGISTRY.names() or name in PLACER_REGISTRY.names():
        return name not in POLICY_REGISTRY.names()
    if not name.partition(":")[0].endswith(".py"):
        return False
    try:
        POLICY_REGISTRY.find(name)
    except OptionError:
        try:
            PLACER_REGISTRY.find(name)
        except RotaError:
            return False  # the error is raised when it is used as a policy
        return True
    except RotaError:
        return False
    return False


def split_pair(text: str) -> tuple[str, str | None]:
    """Split `A+B` into policy A and placer B."""
    policy_text, plus, placer_text = text.partition("+")
    return policy_text, placer_text if plus else None


def _from_file(registry: Registry, path: Path, attribute: str) -> Any:
    if not input_is_file(path):
        folder = path.parent.resolve()
        there = sorted(each.name for each in folder.glob("*.py")) if folder.is_dir() else []
        hint = f"{path.parent / there[0]}:CLASS" if len(there) == 1 else "the path to your file, a colon and the class"
        raise OptionError(
            f"no such file in {folder}.{closest(path.name, there)}", field=registry.what, value=str(path), hint=hint
        )
    module = _loaded(registry, path)
    if attribute:
        if not hasattr(module, attribute):
            known = [n for n, v in vars(module).items() if isinstance(v, type) and registry.accepts(v)]
            raise UnknownNameError(f"{registry.what} in {path}", attribute, known, hint=f"{path}:{known[0] if known else 'Mine'}")
        return getattr(module, attribute)
    here = [v for v in vars(module).values() if isinstance(v, type) and v.__module__ == module.__name__]
    found = [v for v in here if registry.accepts(v) or v in registry.declared.values()]
    if len(found) != 1:
        raise OptionError(
            f"has {len(found)} classes with the {registry.mark}.",
            field=registry.what,
            value=str(path),
            hint=f"name one: {path}:Mine",
        )
    return found[0]


class _InputLoader(importlib.abc.SourceLoader):
    """Load a module from an input file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str | bytes) -> bytes:
        return read_input(os.fsdecode(path))


def _loaded(registry: Registry, path: Path) -> types.ModuleType:
    """Load a file as a module. It is loaded again only if its contents have changed, so that its classes stay the same."""
    mark = zlib.crc32(read_input(path), zlib.crc32(str(path.resolve()).encode()))
    name = f"rota_user_{path.stem}_{mark}"
    if name in sys.modules:
        return sys.modules[name]
    place = absolute_input(path)
    spec = importlib.util.spec_from_file_location(name, place, loader=_InputLoader(place))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as problem:
        del sys.modules[name]
        if isinstance(problem, RotaError) or not isinstance(problem, Exception):
            raise
        raise OptionError(
            f"raised {type(problem).__name__}: {problem}.", field=registry.what, value=str(path), hint=f"python {path}"
        ) from problem
    return module
