"""Find out what the park method of a job depends on. Files of the job's Python are read, never run or imported."""

import contextlib
import functools
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rota.park.park_method import ParkingFacts, preload_problem

_PYTHON = re.compile(r"python[0-9.]*")
_SHELLS = ("bash", "sh", "dash", "zsh", "ksh")
_NO_HOOK = re.compile(r"-[a-zA-Z]*[SIE][a-zA-Z]*")
"""Flags with which Python ignores PYTHONPATH, or does not run `sitecustomize`."""
_CUDA = re.compile(r"^cuda\b[^=\n]*=\s*['\"](\d+)", re.MULTILINE)
_STEM = "torch_memory_saver_hook_mode_preload"
_RUNTIMES = ("nvidia/cu{major}/lib", "nvidia/cuda_runtime/lib")
"""Paths of the CUDA runtime in wheels, relative to their folder."""
PROBE_SECONDS = 10.0
MAX_BYTES = 1 << 16
"""How much is read of a file."""


def parking_facts(
    argv: Sequence[str], env: Mapping[str, str], workdir: str, *, wanted: bool, gpus: float, real_gpus: bool, mps: bool = False
) -> ParkingFacts:
    """Return the facts of a job with this command and these variables."""
    return with_driver(job_facts(argv, env, workdir, wanted=wanted, gpus=gpus, real_gpus=real_gpus), mps=mps)


def job_facts(
    argv: Sequence[str], env: Mapping[str, str], workdir: str, *, wanted: bool, gpus: float, real_gpus: bool
) -> ParkingFacts:
    """Return the facts that the files of the job show. A process of the job's user does this, because it may load a library."""
    python, obstacle = python_of(argv, env, workdir)
    known = ParkingFacts(wanted=wanted, gpus=gpus, real_gpus=real_gpus, python=python, obstacle=obstacle)
    if not wanted or gpus > 1 or not real_gpus or obstacle:
        return known
    return _with_allocator(known, env)


def with_driver(known: ParkingFacts, *, mps: bool) -> ParkingFacts:
    """Add the facts about the driver, if the job could be parked in no other way."""
    if not known.wanted or known.gpus > 1 or not known.real_gpus or not preload_problem(known):
        return known
    return replace(known, driver_problem="it does not work for processes under MPS" if mps else driver_problem())


def _with_allocator(known: ParkingFacts, env: Mapping[str, str]) -> ParkingFacts:
    """Add the facts about the job's PyTorch and the allocator for it."""
    python = known.python
    folders = tuple(str(folder) for folder in package_folders(python, env))
    torch_found, cuda_major = torch_cuda(folders)
    library = allocator(folders, cuda_major) if cuda_major is not None else ""
    needed, problem = loading(library, library_folders(folders, cuda_major or 0)) if library else ((), "")
    return replace(
        known,
        torch_found=torch_found,
        cuda_major=cuda_major,
        library=library,
        library_path=needed,
        library_problem=problem,
        allocator_options=env.get("PYTORCH_CUDA_ALLOC_CONF", "") or env.get("PYTORCH_ALLOC_CONF", ""),
    )


# The job's Python.


def python_of(argv: Sequence[str], env: Mapping[str, str], workdir: str) -> tuple[str, str]:
    """Return the Python that a command starts, and why the hook cannot run in it. For a shell script, assume the Python of the
    job's PATH."""
    words = list(argv)
    shell = bool(words) and Path(words[0]).name in _SHELLS
    if shell and len(words) == 3 and words[1] == "-c":
        try:
            words = shlex.split(words[2])
        except ValueError:
            words = []
    for at, word in enumerate(words):
        if _PYTHON.fullmatch(Path(word).name) and (found := _which(word, env, workdir)):
            flags = [flag for flag in _flags(words[at + 1 :]) if _NO_HOOK.fullmatch(flag)]
            return found, f"it runs Python with {flags[0]}, which loads no start-up hook" if flags else ""
    program = _which(words[0], env, workdir) if words else ""
    if program and (named := _shebang(program)):
        return _which(named, env, workdir), ""
    if shell or not words:
        return _which("python3", env, workdir) or _which("python", env, workdir), ""
    return "", f"its command {words[0]} is not Python"


def _flags(words: Sequence[str]) -> Iterator[str]:
    """Iterate over the flags of the interpreter, before the script."""
    for word in words:
        if not word.startswith("-") or word in ("-c", "-m", "-"):
            return
        yield word


def _which(word: str, env: Mapping[str, str], workdir: str) -> str:
    if "/" in word:
        path = Path(workdir, word)
        return str(path) if path.exists() else ""
    return shutil.which(word, path=env.get("PATH", os.defpath)) or ""


def _shebang(program: str) -> str:
    """Return the Python that a script names in its first line."""
    first = (_start_of(Path(program), 256) or "").partition("\n")[0]
    named = [word for word in first.removeprefix("#!").split() if _PYTHON.fullmatch(Path(word).name)]
    return named[0] if first.startswith("#!") and named else ""


def package_folders(python: str, env: Mapping[str, str]) -> list[Path]:
    """Return the folders in which this Python finds packages, in order."""
    found = [Path(each) for each in env.get("PYTHONPATH", "").split(os.pathsep) if each]
    prefixes = []
    if python:
        prefix = Path(python).parent.parent
        prefixes.append(prefix)
        if not (prefix / "pyvenv.cfg").exists() or _sees_system(prefix / "pyvenv.cfg"):
            prefixes += [Path(env["HOME"], ".local")] if env.get("HOME") else []
            prefixes += [Path(python).resolve().parent.parent, Path("/usr/local"), Path("/usr")]
    for prefix in dict.fromkeys(prefixes):
        for name in ("site-packages", "dist-packages"):
            for library in ("lib", "lib64"):
                found += sorted(prefix.glob(f"{library}/python3*/{name}"), reverse=True)
    return list(dict.fromkeys(found))


def _sees_system(configuration: Path) -> bool:
    text = _start_of(configuration) or ""
    return bool(re.search(r"include-system-site-packages\s*=\s*true", text, re.IGNORECASE))


def _start_of(path: Path, most_bytes: int = MAX_BYTES) -> str | None:
    """Return the start of a plain file; None if there is no such file. A pipe in its place would never be read to its end."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return file.read(most_bytes).decode(errors="replace")
    return None


def torch_cuda(folders: Sequence[str]) -> tuple[bool, int | None]:
    """Return whether PyTorch is installed, and the major version of its CUDA."""
    for folder in folders:
        text = _start_of(Path(folder, "torch", "version.py"))
        if text is None:
            continue
        found = _CUDA.search(text)
        return True, int(found.group(1)) if found else None
    return False, None


# The allocator.


def allocator(folders: Sequence[str], cuda_major: int) -> str:
    """Return the allocator's library for this CUDA major: the job's own, or the one installed with Rota. Early versions were only
    for CUDA 12."""
    names = [f"{_STEM}_cu{cuda_major}.*so", *([f"{_STEM}.*so"] if cuda_major == 12 else [])]
    for folder in (*folders, *(each for each in sys.path if each)):
        for where in (Path(folder), Path(folder, "torch_memory_saver")):
            for name in names:
                for path in sorted(where.glob(name)):
                    return str(path.resolve())
    return ""


def library_folders(folders: Sequence[str], cuda_major: int) -> tuple[str, ...]:
    """Return the folders with the CUDA runtime of the job's PyTorch."""
    ways = [Path(folder, each.format(major=cuda_major)) for folder in folders for each in _RUNTIMES]
    return tuple(str(path) for path in ways if path.is_dir())


def loading(library: str, runtimes: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Return the folders that the library needs for loading, if any, and why it cannot be loaded, if it cannot."""
    for needed in ((), runtimes):
        problem = loading_problem(library, needed)
        if not problem:
            return needed, ""
    return (), problem


@functools.lru_cache(maxsize=64)
def loading_problem(library: str, library_path: tuple[str, ...]) -> str:
    """Return why processes cannot start with this library preloaded; an empty text if they can. A process that cannot load it
    would not start."""
    env = {"LD_PRELOAD": library, "LD_LIBRARY_PATH": os.pathsep.join(library_path), "PATH": os.defpath}
    try:
        tried = subprocess.run(["/bin/true"], env=env, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    said = tried.stderr.strip().splitlines()
    return "" if tried.returncode == 0 and not said else said[-1] if said else f"exit code {tried.returncode}"


# The driver.


@functools.lru_cache(maxsize=1)
def driver_problem() -> str:
    """Return why the driver's checkpoint cannot park processes here; an empty text if it can. It is tested once, in a process of
    its own."""
    run = [sys.executable, "-m", "rota.agent.driver_checkpoint", "probe"]
    try:
        tried = subprocess.run(run, capture_output=True, text=True, timeout=3 * PROBE_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    said = (tried.stdout.strip() or tried.stderr.strip()).splitlines()
    return "" if tried.returncode == 0 else said[-1] if said else f"exit code {tried.returncode}"
