"""Building a user's model, found by name: `package.module:Net` or `path/to/net.py:Net`.

Here, and only here, a profile runs code of the user. Nothing is unpickled, and no weights are loaded.
"""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from rota.errors import OptionError, RotaError
from rota.files.csv_table import closest

EXAMPLE = "package.module:Net, or path/to/net.py:Net"
MAX_REASON_CHARS = 200
_ABSENT = object()


def built_module(where: str, arguments: Mapping[str, Any]) -> Any:
    """Build the named class or call the named function with these arguments. An object that already has parameters is returned as
    it is.

    If PyTorch is available, the model is built on its device `meta`, whose tensors have sizes and no memory.
    """
    source, colon, name = where.rpartition(":")
    if not (source and colon and name):
        hint = f"{where}:Net" if where.endswith(".py") else EXAMPLE
        raise OptionError("does not name what to build.", field="WHERE", value=where, hint=hint)
    file = Path(source) if source.endswith(".py") else None
    with _found_from(file.parent if file is not None else Path.cwd()):
        module = _from_file(where, file) if file is not None else _from_package(where, source)
        make = _named(where, module, name)
        if not _has_parameters(make):
            return _build(where, make, arguments)
    if arguments:
        problem = f"is already built and does not take {next(iter(arguments))}."
        raise OptionError(problem, field="WHERE", value=where, hint="name the class, or leave --arg out")
    return make


def _has_parameters(found: Any) -> bool:
    return not isinstance(found, type) and callable(getattr(found, "named_parameters", None))


def _from_package(where: str, source: str) -> ModuleType:
    with explained(where, f"python -c 'import {source}'"):
        return importlib.import_module(source)


def _from_file(where: str, file: Path) -> ModuleType:
    if not file.is_file():
        raise OptionError("there is no such file.", field="WHERE", value=where, hint=f"check the path; {EXAMPLE}")
    name = f"rota_model_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise OptionError("is not a Python file.", field="WHERE", value=where, hint=EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with explained(where, f"python {file}"):
        spec.loader.exec_module(module)
    return module


def _named(where: str, module: ModuleType, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        with explained(where, f"python -c 'import {module.__name__}'"):
            within, found = found, getattr(found, part, _ABSENT)
        if found is _ABSENT:
            problem = f"has no {part}.{closest(part, (each for each in dir(within) if not each.startswith('_')))}"
            raise OptionError(problem, field="WHERE", value=where, hint=EXAMPLE)
    if not (callable(found) or _has_parameters(found)):
        problem = f"is of type {type(found).__name__}; nothing can be built with it."
        raise OptionError(problem, field="WHERE", value=where, hint="name a class, or a function that returns a torch.nn.Module")
    return found


def _build(where: str, make: Any, arguments: Mapping[str, Any]) -> Any:
    _check_arguments(where, make, arguments)
    made = _built_on_meta(make, arguments)
    if made is None:
        with explained(where, "other arguments: --arg width=64, or a function that takes none and returns the module"):
            made = make(**arguments)
    if not _has_parameters(made):
        problem = f"gave an object of type {type(made).__name__}, which has no named_parameters()."
        raise OptionError(problem, field="WHERE", value=where, hint="name a class, or a function that returns a torch.nn.Module")
    return made


def _built_on_meta(make: Any, arguments: Mapping[str, Any]) -> Any:
    """Build on the device `meta`. None if PyTorch is unavailable, or if the constructor reads the values of its tensors, which
    have none."""
    try:
        torch: Any = importlib.import_module("torch")
        with torch.device("meta"):
            return make(**arguments)
    except (Exception, SystemExit):
        return None


def _check_arguments(where: str, make: Any, arguments: Mapping[str, Any]) -> None:
    try:
        signature = inspect.signature(make)
    except (TypeError, ValueError):
        return  # Not written in Python: the call will raise an error if an argument is missing.
    try:
        signature.bind(**arguments)
    except TypeError as problem:
        taken = [each for each in signature.parameters.values() if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
        needed = [each.name for each in taken if each.default is each.empty and each.name not in arguments]
        unknown = next((name for name in arguments if name not in {each.name for each in taken}), None)
        if unknown is not None and not any(each.kind is each.VAR_KEYWORD for each in signature.parameters.values()):
            names = [each.name for each in taken]
            reason = f"does not take {unknown}.{closest(unknown, names)} All: {', '.join(names) or 'none'}."
            raise OptionError(reason, field="WHERE", value=where, hint="rename it, or leave that --arg out") from None
        if needed:
            hint = " ".join(f"--arg {name}={'64' if number == 0 else '...'}" for number, name in enumerate(needed))
            raise OptionError(f"needs {', '.join(needed)}.", field="WHERE", value=where, hint=hint) from None
        hint = "write a function that takes no arguments and returns the module"
        raise OptionError(f"{problem}.", field="WHERE", value=where, hint=hint) from None


@contextmanager
def _found_from(folder: Path) -> Iterator[None]:
    """Make modules next to the user's file, or in the current folder, importable, as if Python had been started there."""
    here = str(folder.resolve())
    sys.path.insert(0, here)
    try:
        yield
    finally:
        if here in sys.path:
            sys.path.remove(here)


@contextmanager
def explained(where: str, hint: str) -> Iterator[None]:
    """Turn anything that the user's code raises into an error of one line that names it."""
    try:
        yield
    except RotaError:
        raise
    except ModuleNotFoundError as problem:
        raise _lacks(where, problem) from problem
    except SystemExit as problem:
        hint = 'move code that trains below if __name__ == "__main__":'
        raise OptionError("ends Python instead of building a model.", field="WHERE", value=where, hint=hint) from problem
    except Exception as problem:
        reason = " ".join(str(problem).split()).removesuffix(".")
        reason = reason if len(reason) <= MAX_REASON_CHARS else reason[:MAX_REASON_CHARS] + "…"
        said = f"raised {type(problem).__name__}" + (f": {reason}." if reason else ".")
        raise OptionError(said, field="WHERE", value=where, hint=hint) from problem


def _lacks(where: str, problem: ModuleNotFoundError) -> OptionError:
    """Return an error for a missing module: PyTorch, the named module, or one that it imports."""
    name, source = problem.name or "a module", where.rpartition(":")[0]
    package = name.partition(".")[0]
    if package == "torch":
        said, hint = "needs PyTorch, which is not installed.", 'pip install "rota-scheduler[torch]"'
    elif f"{source}.".startswith(f"{name}."):
        said, hint = f"there is no module {name}.", f"pip install {package}, or go to the folder that has it; {EXAMPLE}"
    else:
        said, hint = f"imports {name}, which is not installed.", f"pip install {package}, or go to the folder that has it"
    return OptionError(said, field="WHERE", value=where, hint=hint)
