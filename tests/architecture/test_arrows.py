"""The imports allowed between the rooms of the package, read from the source with `ast`.

An import counts wherever it stands: at the top, inside a function, or under `if TYPE_CHECKING`.
"""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 600

# The public face (rota/__init__.py) and the one name in it that an impure room may read.
FACE = "rota"
VERSION = "__version__"

_MATHS = {"model", "solver", "beliefs", "errors"}
_CORE = {"core", "policies", "placers", "tactics"} | _MATHS
_SIM = {"files", "profiles", "traces"} | _CORE
_LIVE = {"agent", "folders", "park", "wire"} | _SIM
_BELOW_REPORT = {"sim", "live", VERSION} | _LIVE
_BELOW_SERVER = {"report", "compose", "api", "experiments", "train"} | _BELOW_REPORT

# What each room may import from `rota`, itself apart.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "folders": {"errors"},
    "model": {"errors"},
    "solver": {"model", "errors"},
    "beliefs": {"model", "errors"},
    "wire": {"files", "folders", "model", "errors"},
    "policies": _MATHS,
    "placers": _MATHS,
    "tactics": {"core", "placers"} | _MATHS,
    "core": _CORE - {"tactics"},
    "files": {"errors"},
    "profiles": {"files", "model", "beliefs", "errors"},
    "traces": {"files", "profiles", "model", "beliefs", "errors"},
    "sim": {"agent"} | _SIM,
    "live": {VERSION} | _LIVE,
    "agent": {"folders", "model", "wire", "park", "errors"},
    "train": {"agent", "errors"},
    "park": set(),
    "compose": _BELOW_REPORT,
    "report": {"compose"} | _BELOW_REPORT,
    "api": _BELOW_SERVER - {"experiments"},
    "experiments": _BELOW_SERVER,
    "papers": _BELOW_SERVER,
    FACE: _BELOW_SERVER,
    "ray": {"live", "agent", "folders", "experiments", VERSION, "errors"},
    "mcp": {"files", "model", "wire", VERSION, "errors"},
    "server": {FACE, "ray"} | _BELOW_SERVER,
    "doctor": {"server", "ray"} | _BELOW_SERVER,
    "cli": {FACE, "mcp", "ray", "server", "papers", "doctor"} | _BELOW_SERVER,
    "__main__": {"cli"},
}

# An arrow that leads to some files of a room only: chaos runs the rules of the agent, and starts no processes; a training script
# tells its supervisor how far it is, and writes files whole; a node looks up which way a job can be parked, and imports no hook;
# Ray carries cells of sweeps, and knows neither grids nor folders; the doctor asks a Ray cluster for its name, and joins none.
NARROW: dict[tuple[str, str], set[str]] = {
    ("sim", "agent"): {"rota.agent.rules", "rota.agent.constants"},
    ("train", "agent"): {"rota.agent.constants", "rota.agent.datagrams", "rota.agent.disk"},
    ("agent", "park"): {"rota.park.park_environment", "rota.park.facts", "rota.park.park_method"},
    ("doctor", "ray"): {"rota.ray.authentication", "rota.ray.find", "rota.ray.knock", "rota.ray.port"},
    ("ray", "experiments"): {"rota.experiments.worker_pool", "rota.experiments.node_runner", "rota.experiments.versions"},
}

PURE_ROOMS = {"model", "solver", "beliefs", "policies", "placers", "tactics", "core"}
PURE_FILES = {"rota/agent/rules.py", "rota/agent/constants.py"}

# fmt: off
IMPURE_MODULES = {
    "time", "datetime", "random", "threading", "multiprocessing", "subprocess", "socket", "asyncio", "os", "pathlib",
    "io", "logging", "tempfile", "shutil", "glob", "sys", "secrets", "uuid", "urllib", "http", "sqlite3", "pickle",
}
# fmt: on
IMPORT_CALLS = {"__import__", "import_module", "importlib.import_module"}
IMPURE_CALLS = {"open", "print", "input"}
NUMPY_RANDOM_TYPES = {"Generator", "Philox", "BitGenerator"}
PICKLES = {"pickle", "cloudpickle", "dill", "shelve"}
SHELL_CALLS = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"}


def room_of(path: PurePosixPath) -> str | None:
    """The room a file belongs to (`rota/core/state.py` -> `core`), or None outside the package."""
    if path.parts[0] != "rota":
        return None
    if len(path.parts) > 2:
        return path.parts[1]
    return FACE if path.stem == "__init__" else path.stem


@functools.lru_cache(maxsize=1)
def nodes(tree: ast.Module) -> list[ast.AST]:
    """Return all nodes of a tree: every rule looks at all of them, and to find them takes longest."""
    return list(ast.walk(tree))


def absolute_module(node: ast.ImportFrom, path: PurePosixPath) -> str:
    if node.level == 0:
        return node.module or ""
    package = path.parent.parts[: len(path.parent.parts) - (node.level - 1)]
    return ".".join([*package, *([node.module] if node.module else [])])


def imported_names(tree: ast.Module, path: PurePosixPath) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything imported; `from a import b` gives `a.b`."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            module = absolute_module(node, path)
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"
        elif isinstance(node, ast.Call) and dotted(node.func) in IMPORT_CALLS and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield node.lineno, name.value


def dotted(node: ast.expr) -> str:
    """`np.random.rand` for such an expression, an empty string for any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def aliases(tree: ast.Module, path: PurePosixPath) -> dict[str, str]:
    """Local name -> dotted name it was imported as, so that `np.random.rand` reads `numpy.random.rand`."""
    names: dict[str, str] = {}
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    names[alias.asname] = alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{absolute_module(node, path)}.{alias.name}"
    return names


def full_name(node: ast.expr, names: dict[str, str]) -> str:
    head, dot, rest = dotted(node).partition(".")
    return names.get(head, head) + dot + rest


def target_room(name: str) -> str | None:
    """The room that an imported dotted name leads to, or None if it lies outside the package."""
    parts = name.split(".")
    if parts[0] != "rota":
        return None
    if len(parts) == 1:
        return FACE
    return parts[1] if parts[1] in ALLOWED or parts[1] == VERSION or len(parts) > 2 else FACE


def arrow_violations(tree: ast.Module, path: PurePosixPath, room: str) -> Iterator[tuple[int, str]]:
    if room not in ALLOWED:
        yield 1, f"unknown room {room!r}; the rooms are {', '.join(sorted(ALLOWED))}"
        return
    for line, name in imported_names(tree, path):
        target = target_room(name)
        if target is not None and target != room and target not in ALLOWED[room]:
            yield line, f"{room} must not import {target} ({name})"
        files = NARROW.get((room, target or ""))
        if files is not None and not any(name == file or name.startswith(f"{file}.") for file in files):
            yield line, f"{room} may import {', '.join(sorted(files))} of {target}, not {name}"


def purity_violations(tree: ast.Module, path: PurePosixPath, room: str) -> Iterator[tuple[int, str]]:
    for line, name in imported_names(tree, path):
        if name.split(".")[0] in IMPURE_MODULES:
            yield line, f"{room} is pure and must not import {name.split('.')[0]}"
        if name.startswith("numpy.random.") and name.split(".")[2] not in NUMPY_RANDOM_TYPES:
            yield line, f"{room} is pure and must not use {name}"
    names = aliases(tree, path)
    for node in nodes(tree):
        if isinstance(node, ast.Attribute):
            parts = full_name(node, names).split(".")
            if parts[:2] == ["numpy", "random"] and len(parts) == 3 and parts[2] not in NUMPY_RANDOM_TYPES:
                yield node.lineno, f"{room} is pure and must not use {'.'.join(parts)}"
        elif isinstance(node, ast.Call):
            name = full_name(node.func, names)
            if name in IMPURE_CALLS:
                yield node.lineno, f"{room} is pure and must not call {name}()"
            if name == "numpy.random.Philox" and not node.args and not node.keywords:
                yield node.lineno, f"{room} is pure: Philox() without a key draws one from the system"


def house_violations(tree: ast.Module, path: PurePosixPath, room: str | None) -> Iterator[tuple[int, str]]:
    for line, name in imported_names(tree, path):
        if name.split(".")[0] in PICKLES:
            yield line, f"{name.split('.')[0]} must not be imported: loading it runs code"
    names = aliases(tree, path)
    for node in nodes(tree):
        if not isinstance(node, ast.Call):
            continue
        name = full_name(node.func, names)
        if name in SHELL_CALLS:
            yield node.lineno, f"{name}() runs a shell string"
        if room not in {None, "cli"} and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield node.lineno, "print() belongs in rota/cli only"
        for keyword in node.keywords:
            is_true = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
            if keyword.arg in {"shell", "allow_pickle"} and is_true:
                yield node.lineno, f"{keyword.arg}=True is forbidden"


def violations(path: str, text: str) -> list[str]:
    """Every broken rule in one module, given its path in the repository and its text."""
    where = PurePosixPath(path)
    room = room_of(where)
    tree = ast.parse(text, filename=path)
    found = list(house_violations(tree, where, room))
    if room is not None:
        found += arrow_violations(tree, where, room)
        if len(text.splitlines()) > MAX_LINES:
            found.append((MAX_LINES + 1, f"{len(text.splitlines())} lines; the limit is {MAX_LINES}"))
    if room in PURE_ROOMS:
        found += purity_violations(tree, where, room)
    elif path in PURE_FILES:
        found += purity_violations(tree, where, path)
    return [f"{path}:{line}: {message}" for line, message in sorted(set(found))]


def python_files(*folders: str) -> list[Path]:
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py") if "_build" not in file.parts)


def test_every_module_keeps_the_rules() -> None:
    files = python_files("rota", "tests", "benchmarks", "docs", "examples")
    assert ROOT / "rota" / "__init__.py" in files
    found = [line for file in files for line in violations(file.relative_to(ROOT).as_posix(), file.read_text(encoding="utf-8"))]
    assert not found, "\n" + "\n".join(found)


def test_every_folder_of_the_package_is_a_known_room() -> None:
    folders = {entry.name for entry in (ROOT / "rota").iterdir() if entry.is_dir() and entry.name != "__pycache__"}
    assert folders <= set(ALLOWED), f"unknown rooms: {sorted(folders - set(ALLOWED))}"


def test_the_arrows_have_no_cycle() -> None:
    done: set[str] = set()
    while len(done) < len(ALLOWED):
        free = {room for room, below in ALLOWED.items() if room not in done and below - {room, VERSION} <= done}
        assert free, f"a cycle among {sorted(set(ALLOWED) - done)}"
        done |= free


CAUGHT = [
    ("rota/model/job.py", "from rota.core import scheduler", "model must not import core"),
    ("rota/model/job.py", "from rota import core", "model must not import core"),
    ("rota/model/job.py", "from .. import core", "model must not import core"),
    ("rota/model/job.py", "from ..core.state import State", "model must not import core"),
    ("rota/model/job.py", "from rota import Cluster", "model must not import rota"),
    ("rota/model/job.py", "def f():\n    import rota.sim.engine", "model must not import sim"),
    ("rota/model/job.py", "import importlib\nimportlib.import_module('rota.sim')", "model must not import sim"),
    (
        "rota/policies/fifo.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rota.core.scheduler import Scheduler",
        "policies must not import core",
    ),
    ("rota/core/scheduler.py", "import rota.wire.schema", "core must not import wire"),
    ("rota/core/scheduler.py", "import rota.sim.physics", "core must not import sim"),
    ("rota/sim/engine.py", "import rota.live", "sim must not import live"),
    ("rota/sim/agents.py", "from rota.agent.machine import AttemptManager", "not rota.agent.machine.AttemptManager"),
    ("rota/sim/agents.py", "from rota.agent import supervisor", "not rota.agent.supervisor"),
    ("rota/agent/rules.py", "import time", "rota/agent/rules.py is pure and must not import time"),
    ("rota/live/tick.py", "import rota.sim", "live must not import sim"),
    ("rota/train/session.py", "import rota.core", "train must not import core"),
    ("rota/ray/sweep_backend.py", "from rota.experiments.store import Store", "not rota.experiments.store.Store"),
    ("rota/doctor/ray_checks.py", "from rota.ray.channel import RayChannel", "not rota.ray.channel.RayChannel"),
    ("rota/experiments/remote.py", "from rota.ray.sweep_backend import RayCells", "experiments must not import ray"),
    ("rota/train/session.py", "from rota.agent.machine import AttemptManager", "not rota.agent.machine.AttemptManager"),
    ("rota/train/session.py", "from rota.wire.spec import Spec", "train must not import wire"),
    ("rota/compose/presets.py", "import rota.report", "compose must not import report"),
    ("rota/api.py", "import rota.cli.main", "api must not import cli"),
    ("rota/server/app.py", "import rota.cli.main", "server must not import cli"),
    ("rota/server/app.py", "import rota.papers.gavel_experiments", "server must not import papers"),
    ("rota/papers/gavel_experiments.py", "import rota.server.http_api", "papers must not import server"),
    ("rota/mcp/tools.py", "import rota.server.http_api", "mcp must not import server"),
    ("rota/errors.py", "import rota.model", "errors must not import model"),
    ("rota/folders.py", "import rota.agent.disk", "folders must not import agent"),
    ("rota/core/scheduler.py", "from rota.folders import open_folder", "core must not import folders"),
    ("rota/attic/old.py", "x = 1", "unknown room 'attic'"),
    ("rota/attic.py", "x = 1", "unknown room 'attic'"),
    ("rota/core/scheduler.py", "import time", "core is pure and must not import time"),
    ("rota/core/scheduler.py", "from datetime import datetime", "must not import datetime"),
    ("rota/core/scheduler.py", "import os.path", "must not import os"),
    ("rota/core/scheduler.py", "open('x')", "must not call open()"),
    ("rota/core/scheduler.py", "print('x')", "must not call print()"),
    ("rota/core/scheduler.py", "import numpy as np\nnp.random.seed(1)", "must not use numpy.random.seed"),
    ("rota/core/scheduler.py", "import numpy\nnumpy.random.rand(3)", "must not use numpy.random.rand"),
    ("rota/core/scheduler.py", "import numpy as np\nrng = np.random.default_rng()", "numpy.random.default_rng"),
    ("rota/core/scheduler.py", "from numpy.random import default_rng", "numpy.random.default_rng"),
    ("rota/core/scheduler.py", "from numpy import random as r\nr.shuffle([])", "numpy.random.shuffle"),
    ("rota/core/scheduler.py", "import numpy.random as r\nr.shuffle([])", "numpy.random.shuffle"),
    ("rota/core/scheduler.py", "from numpy.random import Philox\nPhilox()", "Philox() without a key"),
    ("rota/sim/engine.py", "print('x')", "print() belongs in rota/cli only"),
    ("rota/sim/engine.py", "import pickle", "pickle must not be imported"),
    ("tests/unit/test_x.py", "from pickle import loads", "pickle must not be imported"),
    ("rota/agent/supervisor.py", "import subprocess\nsubprocess.run('ls', shell=True)", "shell=True is forbidden"),
    ("rota/agent/supervisor.py", "import os\nos.system('ls')", "os.system() runs a shell string"),
    (
        "rota/traces/store.py",
        "import numpy as np\nnp.load('x.npy', allow_pickle=True)",
        "allow_pickle=True is forbidden",
    ),
    ("rota/sim/engine.py", "x = 1\n" * (MAX_LINES + 1), "601 lines; the limit is 600"),
]


@pytest.mark.parametrize(("path", "text", "message"), CAUGHT)
def test_a_violation_is_caught(path: str, text: str, message: str) -> None:
    assert any(message in line for line in violations(path, text))


PASSED = [
    (
        "rota/model/job.py",
        "import numpy as np\nfrom rota.errors import RotaError\nfrom rota.model.units import Seconds",
    ),
    ("rota/policies/srsf.py", "from rota.policies.base import Policy\nfrom ..beliefs import rates\nfrom . import base"),
    ("rota/core/draws.py", "import numpy as np\nrng = np.random.Generator(np.random.Philox(key=1))"),
    ("rota/core/draws.py", "from numpy.random import Generator, Philox\nrng = Generator(Philox(key=1))"),
    ("rota/core/state.py", "class Valve:\n    def open(self): ...\nValve().open()"),
    ("rota/sim/engine.py", "import time\nfrom rota.core import scheduler\nfrom rota.traces import generate"),
    ("rota/sim/agents.py", "from rota.agent import rules\nfrom rota.agent.constants import KILL"),
    ("rota/agent/supervisor.py", "import time\nfrom rota.agent import rules"),
    ("rota/report/html.py", "from rota import __version__\nimport rota.sim.engine"),
    ("rota/api.py", "from rota.compose import presets\nfrom rota.report import compare"),
    ("rota/cli/main.py", "import rota\nimport rota.server\nprint('x')"),
    ("rota/sim/engine.py", "x = 1\n" * MAX_LINES),
    ("tests/unit/test_x.py", "import time\nprint(time.time())"),
]


@pytest.mark.parametrize(("path", "text"), PASSED)
def test_what_is_allowed_passes(path: str, text: str) -> None:
    assert violations(path, text) == []
