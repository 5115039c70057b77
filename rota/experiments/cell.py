"""A cell: one study to calculate, with its input files named by digest.

A cell depends on nothing but its study, its settings, the contents of its inputs and the version of Rota. Its key is made of
these. So a result under that key can be used again, and any machine may calculate it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rota import __version__
from rota.compose.fingerprint import Fingerprints
from rota.compose.study import Study
from rota.experiments.versions import sources

SIMULATE = "rota.experiments.simulate_cell"
"""Task that simulates the study and returns its summary."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One study of an experiment."""

    study: Study
    axes: Mapping[str, Any]
    """Values that identify the cell among the cells of the experiment, without the seed."""
    key: str
    """Digest of everything that the result depends on."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Input files, as the study names them, with the digest of each."""
    task: str = SIMULATE
    """Module whose function `run(study, settings, alive)` calculates the cell."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the task, for JSON."""
    effort: float = 1.0
    """Expected run time relative to other cells. The longest cells start first."""

    @property
    def seed(self) -> int:
        return self.study.seed

    def work(self) -> dict[str, Any]:
        """Return the cell as it is sent to a worker process."""
        return {"task": self.task, "study": self.study.plain(), "settings": dict(self.settings)}


@dataclass(frozen=True, slots=True)
class FailedCell:
    """A cell without a result."""

    cell: Cell
    error: str
    hint: str


def make_cell(
    study: Study,
    axes: Mapping[str, Any],
    fingerprints: Fingerprints,
    *,
    task: str = SIMULATE,
    settings: Mapping[str, Any] | None = None,
    effort: float = 1.0,
) -> Cell:
    """Return the cell of a study. The files that it names are read."""
    described: list[Any] = [__version__, sources(), fingerprints.of(study)]
    if task != SIMULATE:
        described += [task, settings]
    key = hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:20]
    return Cell(study, axes, key, fingerprints.files(study), task, settings or {}, effort)
