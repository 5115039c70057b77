"""The fingerprint of a study: it changes with every field, and with the contents of every file that the study reads."""

import hashlib
import importlib.metadata
import importlib.util
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from rota.compose.option_syntax import ParsedName
from rota.compose.parse_tactics import NONE, tactic_parts
from rota.compose.registry import PLACER_REGISTRY, POLICY_REGISTRY, TACTIC_REGISTRY, Registry, split_pair
from rota.compose.study import Study
from rota.errors import InputError
from rota.profiles.variability_files import variability_files


class Fingerprints:
    """Fingerprints of many studies. Each file is read once."""

    def __init__(self) -> None:
        self._contents: dict[Path, str] = {}
        self._files: dict[tuple[str, str], list[Path]] = {}

    def of(self, study: Study) -> str:
        """Return the fingerprint of a study. Equal fields and equal file contents have equal fingerprints."""
        return hashlib.sha256(json.dumps([study.plain(), self.files(study)], sort_keys=True).encode()).hexdigest()

    def files(self, study: Study) -> dict[str, str]:
        """Return the files that the study reads, as it names them, with a digest of each; empty if a file cannot be read."""
        given = study.plain()
        return {str(path): self._digest(path) for name in FILES if given.get(name) for path in self._read(name, given[name])}

    def _read(self, name: str, text: str) -> list[Path]:
        if (name, text) not in self._files:
            self._files[name, text] = list(FILES[name](text))
        return self._files[name, text]

    def _digest(self, path: Path) -> str:
        if path not in self._contents:
            try:
                with path.open("rb") as file:
                    self._contents[path] = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError:
                self._contents[path] = ""  # preparing the study raises the error of the file
        return self._contents[path]


def _file(text: str) -> Iterable[Path]:
    """Return the file of this name, if there is one."""
    try:
        return [Path(text)] if Path(text).is_file() else []
    except (OSError, ValueError):
        return []


def _trace_files(text: str) -> Iterable[Path]:
    """Return a trace's file, or the files in the settings of a generated trace, such as `gavel:profile=FILE`."""
    settings = text.partition(":")[2].split(",")
    return list(_file(text)) or [path for each in settings for path in _file(each.partition("=")[2].strip())]


def _policy_files(text: str) -> Iterable[Path]:
    policy, placer = split_pair(text)
    return [*_named_files(POLICY_REGISTRY, policy), *(_placer_files(placer) if placer else ())]


def _placer_files(text: str) -> Iterable[Path]:
    return _named_files(PLACER_REGISTRY, text)


def _named_files(registry: Registry, text: str) -> list[Path]:
    """Return the file of a class that is not built in, and the files in its options, such as `hierarchical:tenants=FILE`."""
    try:
        parsed = ParsedName.parse(text, registry.what)
    except InputError:
        return []
    found = [path for value in parsed.options.values() for path in _file(value)]
    name = parsed.name.partition(":")[0]
    if name.endswith(".py"):
        return [*_file(name), *found]
    return [*(_plug_in_files(registry, name) if name not in registry.builtin else ()), *found]


def _plug_in_files(registry: Registry, name: str) -> Iterable[Path]:
    for point in importlib.metadata.entry_points(group=registry.group, name=name):
        try:
            found = importlib.util.find_spec(point.module)
        except (ImportError, ValueError):
            continue
        if found is not None and found.origin is not None:
            yield from _file(found.origin)


def _tactic_files(text: str) -> Iterable[Path]:
    try:
        return [path for part in tactic_parts(text) for path in _named_files(TACTIC_REGISTRY, part)] if text != NONE else []
    except InputError:
        return []


def _profile_files(text: str) -> Iterable[Path]:
    """Return a table of rates, or the tables below a folder, as deep as they are searched for."""
    try:
        tables = [*Path(text).glob("*.csv"), *Path(text).glob("*/*.csv")] if Path(text).is_dir() else []
    except (OSError, ValueError):
        tables = []
    return sorted(tables) or _file(text)


def _variability_files(text: str) -> Iterable[Path]:
    try:
        return variability_files(text)
    except InputError:
        return _file(text)


FILES: Mapping[str, Callable[[str], Iterable[Path]]] = {
    "trace": _trace_files,
    "policy": _policy_files,
    "cluster": _file,
    "placer": _placer_files,
    "profile": _profile_files,
    "tactics": _tactic_files,
    "tenants": _file,
    "tensors": _file,
    "variability": _variability_files,
}
"""Field -> function that returns the files that its text names."""
