"""The experiments of a paper: points on curves, each of which is one cell of the engine, and the figures measured there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rota.compose.fingerprint import Fingerprints
from rota.compose.study import Study
from rota.experiments.cell import Cell, make_cell
from rota.experiments.engine import Watch, run_cells
from rota.experiments.remote import RemoteBackend
from rota.experiments.store import CellStore
from rota.experiments.worker_pool import available_cores
from rota.papers.claims import Claim
from rota.papers.paper_page import Section

MEASURE = "rota.papers.measure"
"""Task of the cells: it measures the figures that papers publish."""
WORKERS = 2
"""Default number of processes. Experiments are sized for two cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproduceRequest:
    """What the cells of a paper are made from."""

    inputs: Path
    """Folder for generated files that cells read."""
    quick: bool = False
    """Whether to use the coarse grid."""
    data: Path | None = None
    """Folder with the paper's own data, if given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperCell:
    """One simulation of an experiment."""

    experiment: str
    label: str
    """Curve of the simulation."""
    x: float
    """Position on the curve."""
    group: str = ""
    """Further part of the name, such as the workload. Cells are compared within a group."""
    study: Study
    """Study to simulate. All its fields are texts and numbers, so it can be sent to a worker process."""
    shift_s: float = 0.0
    """Delay added to all submissions, in seconds. Rounds begin at 0, so this moves the rounds."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weight of each tenant, for a policy that serves tenants. If given, the share of each tenant over time is measured."""
    gangs: bool = False
    """Whether jobs with several GPUs and idle nodes are measured too."""
    solve: bool = False
    """Whether only the time of one policy call is measured, with all jobs of the trace present."""
    effort: float = 1.0
    """Expected run time relative to other cells. The longest cells start first."""

    def to_cell(self, fingerprints: Fingerprints) -> Cell:
        axes = {"experiment": self.experiment, "label": self.label, "x": self.x, "group": self.group}
        return make_cell(self.study, axes, fingerprints, task=MEASURE, settings=self.settings(), effort=self.effort)

    def settings(self) -> dict[str, Any]:
        """Return the settings of the task."""
        return {"shift_s": self.shift_s, "weights": dict(self.weights), "gangs": self.gangs, "solve": self.solve}


@dataclass(frozen=True, slots=True)
class CellResult:
    """A simulation and its figures."""

    cell: PaperCell
    figures: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""


Experiment = Callable[[Sequence[CellResult]], tuple[list[Claim], Section | None]]
"""Function that judges the claims of an experiment and makes its section of the page; None if its simulations were not run."""


def conclude(experiments: Sequence[Experiment], results: Sequence[CellResult]) -> tuple[list[Claim], list[Section]]:
    """Return the claims of a paper, and a section for each experiment that has something to show."""
    claims: list[Claim] = []
    sections: list[Section] = []
    for experiment in experiments:
        found, section = experiment(results)
        claims += found
        if section is not None and (found or section.plots or section.rows or section.problems):
            sections.append(replace(section, claims=found))
    return claims, sections


def run_experiments(
    cells: Sequence[PaperCell],
    store: CellStore,
    *,
    workers: int | None = None,
    backend: Callable[[], RemoteBackend] | None = None,
    watch: Watch | None = None,
) -> tuple[list[CellResult], int]:
    """Run the simulations that the store does not have. Return the results in the order of the cells, and how many simulations
    were in the store before. A simulation that fails does not stop the others."""
    fingerprints = Fingerprints()
    made = [cell.to_cell(fingerprints) for cell in cells]
    different = list({cell.key: cell for cell in made}.values())  # two experiments may share a simulation
    ran = run_cells(different, store, workers=workers or min(available_cores(), WORKERS), backend=backend, watch=watch)
    errors = {failed.cell.key: failed.error for failed in ran.failed}
    results = []
    for paper_cell, cell in zip(cells, made, strict=True):
        figures = store.load(cell.key)
        error = "" if figures else errors.get(cell.key, "It was not tried: workers kept dying.")
        results.append(CellResult(paper_cell, figures or {}, error))
    return results, ran.reused
