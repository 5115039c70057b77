"""`rota reproduce`: run the experiments of a paper, judge its claims, and make the page."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rota.errors import OptionError, UnknownNameError
from rota.experiments.engine import Watch
from rota.experiments.remote import RemoteBackend
from rota.experiments.store import CellStore
from rota.papers import (
    gandiva_experiments,
    gandiva_findings,
    gavel_experiments,
    gavel_findings,
    ones_experiments,
    ones_findings,
    pal_experiments,
    pal_findings,
    tiresias_experiments,
    tiresias_findings,
)
from rota.papers.claims import Claim
from rota.papers.experiment import Experiment, PaperCell, ReproduceRequest, conclude, run_experiments
from rota.papers.paper_page import figure, finding, paper_page
from rota.report.result import duration, plain_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A paper: its experiments, and how its claims follow from their figures."""

    title: str
    cells: Callable[[ReproduceRequest], list[PaperCell]]
    experiments: Sequence[Experiment]
    facts: Mapping[str, str]
    rule: str
    """Note on how the claims are judged."""
    source: str = ""
    """Name of the inputs that the paper's own data provides."""
    needs: Sequence[str] = ()
    """Files that a folder with the paper's data must have, as glob patterns; empty if the paper has no data of its own."""
    with_data: str = ""
    """Origin of the inputs if the data is given."""
    without: str = ""
    """Origin of the inputs if the data is not given."""


PAPERS: Mapping[str, Paper] = {
    "gavel": Paper(
        title=gavel_experiments.TITLE,
        cells=gavel_experiments.cells,
        experiments=gavel_findings.EXPERIMENTS,
        facts=gavel_experiments.FACTS,
        rule=gavel_experiments.RULE,
        source="Rates",
        needs=(gavel_experiments.PROFILE,),
        with_data=f"measured by the paper's authors ({gavel_experiments.PROFILE})",
        without="modelled by Rota's built-in catalogue",
    ),
    "tiresias": Paper(
        title=tiresias_experiments.TITLE,
        cells=tiresias_experiments.cells,
        experiments=tiresias_findings.EXPERIMENTS,
        facts=tiresias_experiments.FACTS,
        rule=tiresias_experiments.RULE,
    ),
    "pal": Paper(
        title=pal_experiments.TITLE,
        cells=pal_experiments.cells,
        experiments=pal_findings.EXPERIMENTS,
        facts=pal_experiments.FACTS,
        rule=pal_experiments.RULE,
        source="Jobs and GPUs",
        needs=pal_experiments.NEEDS,
        with_data="the paper's own workloads and runs",
        without="made up in the shape of the paper's, and chosen to have one slow GPU of 64 like the published draw",
    ),
    "gandiva": Paper(
        title=gandiva_experiments.TITLE,
        cells=gandiva_experiments.cells,
        experiments=gandiva_findings.EXPERIMENTS,
        facts=gandiva_experiments.FACTS,
        rule=gandiva_experiments.RULE,
        source="Rates and pairs",
        needs=(gandiva_experiments.RATES,),
        with_data=f"measured by Gavel's authors on V100s ({gandiva_experiments.RATES})",
        without="alone from Rota's built-in catalogue, in pairs from guesses of how busy each model keeps a GPU",
    ),
    "ones": Paper(
        title=ones_experiments.TITLE,
        cells=ones_experiments.cells,
        experiments=ones_findings.EXPERIMENTS,
        facts=ones_experiments.FACTS,
        rule=ones_experiments.RULE,
        source="Pollux's workloads",
        needs=ones_experiments.NEEDS,
        with_data="step times that its authors measured on T4s, and their eight workloads",
        without="left out; they need --data",
    ),
}


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The claims of a paper as measured here. It prints itself."""

    claims: Sequence[Claim]
    html: str
    seconds: float
    reused: int = 0
    """Number of simulations that were finished before."""

    def to_dict(self, page: str) -> dict[str, Any]:
        """Return the claims for JSON. `page`: file of the HTML page."""
        return {"claims": [each.to_dict() for each in self.claims], "page": page, "seconds": self.seconds}

    def __str__(self) -> str:
        words = {True: "yes", False: "no", None: "unknown"}
        rows = [
            [each.name, figure(each.paper, each.unit), figure(each.measured, each.unit), words[each.holds]]
            for each in self.claims
        ]
        table = plain_table(["CLAIM", "PAPER", "MEASURED", "HOLDS"], rows)
        before = f"\n{self.reused} of the simulations were there before." if self.reused else ""
        return f"{table}\n{finding(self.claims)} It took {duration(self.seconds)}.{before}"


def reproduce(
    name: str,
    *,
    quick: bool = False,
    data: Path | str | None = None,
    out: Path | str | None = None,
    workers: int | None = None,
    backend: Callable[[], RemoteBackend] | None = None,
    watch: Watch | None = None,
) -> Reproduction:
    """Measure a paper's claims again.

    `data` is the folder with the paper's own data. Without it, its inputs are modelled or generated, and the page states that.
    `out` is the folder for finished simulations; called again with it, only those that are missing are run.
    """
    paper = _named(name)
    folder = _data_folder(name, paper, data)
    started = time.perf_counter()
    with TemporaryDirectory(prefix="rota-") if out is None else nullcontext(out) as place:
        store = CellStore(place)
        with store.locked():
            inputs = store.folder / "inputs"
            inputs.mkdir(exist_ok=True)
            cells = paper.cells(ReproduceRequest(inputs=inputs, quick=quick, data=folder))
            results, reused = run_experiments(cells, store, workers=workers, backend=backend, watch=watch)
    claims, sections = conclude(paper.experiments, results)
    seconds = time.perf_counter() - started
    facts = {
        **paper.facts,
        **({paper.source: paper.with_data if folder else paper.without} if paper.source else {}),
        "Grid": "quick" if quick else "full",
        "Simulations": f"{len(results):,}",
        "Time": duration(seconds),
    }
    notes = []
    if paper.needs and not folder:
        notes.append(
            f"The paper's own data was not given. {paper.source}: {paper.without}. "
            f"To use it: --data FOLDER, with {' and '.join(paper.needs)}."
        )
    if quick:
        notes.append("A quick run: its coarse grid shows the direction of the results, not their size.")
    html = paper_page(paper.title, claims=claims, sections=sections, facts=facts, notes=notes, rule=paper.rule)
    return Reproduction(claims, html, seconds, reused)


def _named(name: str) -> Paper:
    if name in PAPERS:
        return PAPERS[name]
    raise UnknownNameError("paper", name, PAPERS, hint=f"rota reproduce {next(iter(PAPERS))} --quick")


def _data_folder(name: str, paper: Paper, data: Path | str | None) -> Path | None:
    if data is None:
        return None
    if not paper.needs:
        raise OptionError(f"{name} reads no data of its own.", field="--data", value=str(data), hint="leave --data out")
    folder = Path(data)
    missing = next((need for need in paper.needs if not any(each.is_file() for each in folder.glob(need))), None)
    if missing is not None:
        raise OptionError(f"has no {missing}.", field="--data", value=str(data), hint="the folder with it, or leave --data out")
    return folder
