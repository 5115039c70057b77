"""`rota reproduce`: from the name of a paper to its claims and its page."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rota.errors import NameUnknown, OptionError
from rota.papers import gavel, gavel_findings
from rota.papers.cells import Cell, Outcome, Watch, run_cells
from rota.papers.claims import Claim
from rota.papers.page import Section, figure, finding, paper_page
from rota.report.result import duration, plain_table


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper that can be measured again."""

    title: str
    cells: Callable[[bool, str | None], list[Cell]]
    """From whether it is to be quick and the path of its profile."""
    conclude: Callable[[Sequence[Outcome]], tuple[list[Claim], list[Section]]]
    profile: str
    """The file of its own rates, inside the folder with its data."""
    facts: Mapping[str, str] = field(default_factory=dict)


PAPERS: Mapping[str, Paper] = {
    "gavel": Paper(gavel.TITLE, gavel.cells, gavel_findings.conclude, gavel.PROFILE, gavel.FACTS),
}
COMING = ("tiresias", "pal", "gandiva", "ones")


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What came of it. It prints itself."""

    claims: Sequence[Claim]
    html: str
    seconds: float

    def to_dict(self, page: str) -> dict[str, Any]:
        """The machine-readable form, with where the page went."""
        return {"claims": [each.to_dict() for each in self.claims], "page": page, "seconds": self.seconds}

    def __str__(self) -> str:
        words = {True: "yes", False: "no", None: "unknown"}
        rows = [
            [each.name, figure(each.paper, each.unit), figure(each.measured, each.unit), words[each.holds]]
            for each in self.claims
        ]
        table = plain_table(["CLAIM", "PAPER", "MEASURED", "HOLDS"], rows)
        return f"{table}\n{finding(self.claims)} It took {duration(self.seconds)}."


def reproduce(
    name: str, *, quick: bool = False, data: Path | str | None = None, workers: int | None = None, watch: Watch | None = None
) -> Reproduction:
    """Measure a paper's claims again. `data` is the folder with the paper's own rates; without it the built-in catalogue's are
    used, and the page says so."""
    paper = _named(name)
    profile = _profile(paper, data)
    started = time.perf_counter()
    outcomes = run_cells(paper.cells(quick, profile), workers=workers, watch=watch)
    claims, sections = paper.conclude(outcomes)
    seconds = time.perf_counter() - started
    facts = {
        **paper.facts,
        "Rates": f"measured by the paper's authors ({paper.profile})" if profile else "modelled by Rota's built-in catalogue",
        "Grid": "quick" if quick else "full",
        "Simulations": f"{len(outcomes):,}",
        "Time": duration(seconds),
    }
    notes = []
    if not profile:
        notes.append(
            f"The paper's own rates were not given, so the figures are of modelled ones: --data FOLDER with {paper.profile}."
        )
    if quick:
        notes.append("A quick run: few jobs, few loads, one seed. Gains at high load show fully only in the full grid.")
    html = paper_page(paper.title, claims=claims, sections=sections, facts=facts, notes=notes)
    return Reproduction(claims, html, seconds)


def _named(name: str) -> Paper:
    if name in PAPERS:
        return PAPERS[name]
    if name in COMING:
        raise OptionError(
            "is planned and not in this version yet.", field="paper", value=name, hint=f"rota reproduce {next(iter(PAPERS))}"
        )
    raise NameUnknown("paper", name, PAPERS, hint=f"rota reproduce {next(iter(PAPERS))} --quick")


def _profile(paper: Paper, data: Path | str | None) -> str | None:
    if data is None:
        return None
    path = Path(data) / paper.profile
    if not path.is_file():
        raise OptionError(
            f"has no {paper.profile}.", field="--data", value=str(data), hint="the folder with it, or leave --data out"
        )
    return str(path)
