"""Python runs this at start-up, because the launcher put this folder in front of PYTHONPATH. It installs the hook for parking,
and then runs the `sitecustomize` that would have been found without it."""

import os
import sys


def _hook() -> None:
    try:
        import rota_park_hook  # type: ignore[import-not-found, unused-ignore]
    except Exception:  # A job without the hook can't be parked; it must run all the same.
        return
    rota_park_hook.install(os.environ)


def _run_other() -> None:
    """The next `sitecustomize` on the path, under its own name. What it raises is told by Python, as if it had been the first."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  loading pathlib takes longer than all the rest
    others = [folder for folder in sys.path if os.path.abspath(folder or ".") != here]  # noqa: PTH100
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_hook()
_run_other()
