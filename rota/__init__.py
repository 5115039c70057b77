"""Rota schedules training jobs on a shared cluster of unequal GPUs.

    import rota
    print(rota.simulate("demo", policy="tiresias", cluster="8xV100 + 8xP100 + 8xK80"))

Names are loaded when first used, so importing Rota is fast.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from rota import errors, traces
    from rota.api import compare, simulate
    from rota.compose.registry import placer, policy, tactic
    from rota.compose.study import Study
    from rota.core.plan.draft import Draft
    from rota.core.plan.mover import Mover
    from rota.core.plan.tactic import Tactic
    from rota.errors import RotaError
    from rota.experiments.runner import sweep
    from rota.model.allocation import Assignment, Ranking, Shares
    from rota.model.cluster import Cluster
    from rota.model.job import JobSpec
    from rota.model.needs import Needs
    from rota.model.view import View
    from rota.report.comparison import Comparison
    from rota.report.result import Result
    from rota.solver.linear import greatest, least
    from rota.solver.program import Program
    from rota.traces.trace import Trace
    from rota.wire.client import connect

_WHERE = {
    "Assignment": "rota.model.allocation",
    "Cluster": "rota.model.cluster",
    "Comparison": "rota.report.comparison",
    "Draft": "rota.core.plan.draft",
    "JobSpec": "rota.model.job",
    "Mover": "rota.core.plan.mover",
    "Needs": "rota.model.needs",
    "Program": "rota.solver.program",
    "Ranking": "rota.model.allocation",
    "Result": "rota.report.result",
    "RotaError": "rota.errors",
    "Shares": "rota.model.allocation",
    "Study": "rota.compose.study",
    "Tactic": "rota.core.plan.tactic",
    "Trace": "rota.traces.trace",
    "View": "rota.model.view",
    "compare": "rota.api",
    "connect": "rota.wire.client",
    "errors": "rota.errors",
    "greatest": "rota.solver.linear",
    "least": "rota.solver.linear",
    "placer": "rota.compose.registry",
    "policy": "rota.compose.registry",
    "simulate": "rota.api",
    "sweep": "rota.experiments.runner",
    "tactic": "rota.compose.registry",
    "traces": "rota.traces",
}

__all__ = [
    "Assignment",
    "Cluster",
    "Comparison",
    "Draft",
    "JobSpec",
    "Mover",
    "Needs",
    "Program",
    "Ranking",
    "Result",
    "RotaError",
    "Shares",
    "Study",
    "Tactic",
    "Trace",
    "View",
    "__version__",
    "compare",
    "connect",
    "errors",
    "greatest",
    "least",
    "placer",
    "policy",
    "simulate",
    "sweep",
    "tactic",
    "traces",
]


def check_platform(platform: str) -> None:
    """Raise ImportError on Windows. Rota runs on Linux, and on macOS for simulation."""
    if platform.startswith("win") or platform == "cygwin":
        raise ImportError("Rota does not run on Windows. Try: Linux, macOS (simulation only), or Linux under WSL 2.")


check_platform(sys.platform)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'rota' has no attribute {name!r}")
    module = importlib.import_module(_WHERE[name])
    value = module if _WHERE[name].rpartition(".")[2] == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
