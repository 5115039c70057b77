"""Speed cannot drift unnoticed: the calls of six fixed simulations are counted, which gives the same number on every machine.

Counted are calls of Rota's own functions, and what these call elsewhere: NumPy, built-in functions, the standard library. More
than 2% above the stored number fails. Raise a number only with a line in `docs/performance.md` that says why; lower it when a run
needs fewer calls, which the test asks for.
"""

import cProfile
import sys
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

import rota
from rota.api import simulate

PACKAGE = str(Path(rota.__file__).parent)
TOLERANCE = 0.02

SYNTHETIC = "synthetic:jobs=600,gpus=64,largest=16,load=0.9"
RUNS: dict[str, tuple[dict[str, Any], int]] = {
    "srsf": ({"trace": SYNTHETIC, "policy": "srsf", "cluster": "64xV100", "preset": "ideal"}, 380_064),
    "tiresias": ({"trace": SYNTHETIC, "policy": "tiresias", "cluster": "64xV100"}, 455_028),
    "max-min-fairness": (
        {"trace": "gavel:jobs=40", "policy": "max-min-fairness", "cluster": "12xV100 + 12xP100 + 12xK80", "preset": "gavel"},
        567_469,
    ),
    "pal": (
        {"trace": "synthetic:jobs=200,gpus=64,largest=16,load=0.9", "policy": "las", "placer": "pal", "cluster": "16x(4xV100)"},
        574_483,
    ),
    "gandiva": ({"trace": "gandiva:jobs=60", "policy": "gandiva", "cluster": "8x(4xV100)"}, 354_067),
    "elastic": ({"trace": "ones:jobs=60", "policy": "optimus", "cluster": "8x(4xV100)"}, 165_693),
}
"""Options of each run, and how many calls it takes."""


def of_rota(code: CodeType | str) -> bool:
    """Whether this is a function of Rota. Comprehensions are not counted: from Python 3.12 on most are no functions."""
    return isinstance(code, CodeType) and code.co_filename.startswith(PACKAGE) and not code.co_name.startswith("<")


def calls_of(options: dict[str, Any]) -> int:
    """Run a simulation twice, so that caches are warm, and count the calls of the second run."""
    simulate(**options)
    profile = cProfile.Profile()
    profile.enable()
    simulate(**options)
    profile.disable()
    entries = [entry for entry in profile.getstats() if of_rota(entry.code)]
    own = sum(entry.callcount for entry in entries)
    return own + sum(call.callcount for entry in entries for call in entry.calls or () if not of_rota(call.code))


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="calls of built-in functions are counted differently by each Python")
@pytest.mark.parametrize("name", RUNS)
def test_a_run_takes_no_more_calls_than_before(name: str) -> None:
    options, stored = RUNS[name]
    calls = calls_of(options)
    assert calls <= stored * (1 + TOLERANCE), f"{calls:,} calls instead of {stored:,}: a feature costs runs that do not use it"
    assert calls >= stored * (1 - 2 * TOLERANCE), f"{calls:,} calls instead of {stored:,}: store the lower number"


def test_only_functions_of_the_package_count() -> None:
    assert of_rota(simulate.__code__) and not of_rota(Path.exists.__code__) and not of_rota("<built-in method len>")
