"""The library that makes host memory for parked jobs, compiled once on each machine that has a C compiler.

Its source is `rota/park/hook/park_pages.c`. Jobs are parked without it too, but the first time takes much longer.
"""

import functools
import hashlib
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from rota.errors import NotYours
from rota.folders import make_folder, state_folder
from rota.park.park_environment import HOOK_FOLDER
from rota.park.park_method import PRELOAD, ParkingFacts, choose_park_method

SOURCE = Path(HOOK_FOLDER) / "park_pages.c"
FOLDER = "rota/libraries"
"""Where the library is kept, below the user's folder for program state."""
COMPILERS = ("cc", "gcc", "clang")
SECONDS = 60.0
"""Time limit for the compiler, in seconds."""


def with_pages_library(facts: ParkingFacts) -> ParkingFacts:
    """Add the facts about the library. Those that are there may be from a process of another user."""
    facts = replace(facts, pages_library="", pages_problem="")
    if choose_park_method(facts)[0] != PRELOAD:
        return facts
    library, problem = pages_library()
    return replace(facts, pages_library=library, pages_problem=problem)


@functools.lru_cache(maxsize=1)
def pages_library() -> tuple[str, str]:
    """Return the path of the library, and why there is none; one of both texts is empty."""
    return build_pages_library(state_folder() / FOLDER)


def build_pages_library(folder: Path) -> tuple[str, str]:
    """Compile the library in a folder, unless it is there. Return its path, and why there is none."""
    source = SOURCE.read_bytes()
    library = folder / f"park_pages-{hashlib.sha256(source).hexdigest()[:16]}.so"
    try:
        make_folder(folder)
        if library.exists():
            return str(library), ""
        compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
        if compiler is None:
            return "", "there is no C compiler; install gcc"
        new = folder / f"new-{os.urandom(8).hex()}.so"
        command = [compiler, "-O2", "-shared", "-fPIC", "-pthread", "-o", str(new), str(SOURCE), "-ldl"]
        try:
            subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True, cwd="/")
            new.replace(library)
        finally:
            new.unlink(missing_ok=True)
    except subprocess.CalledProcessError as error:
        lines = str(error.stderr).strip().splitlines()
        return "", f"{command[0]} failed: {lines[-1] if lines else error.returncode}"
    except (OSError, NotYours, subprocess.SubprocessError) as error:
        return "", str(error)
    return str(library), ""
