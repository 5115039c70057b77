"""Install the park hook when Python starts, and then run the `sitecustomize` that Python would have found without this one.

Python runs this file because the launcher puts this folder in front of PYTHONPATH."""

import os
import sys


def _hook() -> None:
    try:
        import rota_park_hook  # type: ignore[import-not-found, unused-ignore]
    except Exception:  # A job without the hook cannot be parked, but it must run.
        return
    rota_park_hook.install(os.environ)


def _run_other() -> None:
    """Run the next `sitecustomize` on the path under its own name. Python reports its errors as if it were the first."""
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
