"""Versions of everything that results depend on. Machines with other versions may give other results.

`python -P -m rota.experiments.versions` prints those of this machine.
"""

import functools
import hashlib
import importlib.metadata
import json
import platform
import sys
from collections.abc import Mapping
from pathlib import Path

from rota import __version__

CALCULATES = ("numpy", "scipy", "highspy", "clarabel")
"""Packages that calculate the results of a simulation."""

PLUG_INS = ("rota.policies", "rota.placers")
SOURCES = "sources"


def versions() -> dict[str, str]:
    """Return the versions of Rota, its source files, Python, the packages that calculate, and plug-ins."""
    found = {"rota": __version__, SOURCES: sources(), "Python": platform.python_version()}
    found |= {name: _version(name) for name in CALCULATES}
    for group in PLUG_INS:
        for point in importlib.metadata.entry_points(group=group):
            found[f"plug-in {point.name}"] = f"{point.dist.name} {point.dist.version}" if point.dist else point.value
    return found


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """Describe what another machine has instead of our versions. Plug-ins that only it has are ignored."""
    found = []
    for name, version in ours.items():
        other = theirs.get(name)
        if other == version or (name == SOURCES and ours["rota"] != theirs.get("rota")):
            continue
        if name == SOURCES:
            found.append(f"rota {ours['rota']} with other source files")
        else:
            found.append(f"no {name}" if not other else f"{name} {other}, not {version or 'none'}")
    return found


@functools.cache
def sources() -> str:
    """Return a digest of Rota's source files, because results may change between two versions with the same number."""
    root = Path(__file__).parents[1]
    mark = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        mark.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return mark.hexdigest()


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    sys.stdout.write(json.dumps(versions()) + "\n")
