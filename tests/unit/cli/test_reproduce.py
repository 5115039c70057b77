"""`rota reproduce` as a user runs it, with an experiment that takes no time."""

import json
from pathlib import Path

import pytest

from rota.papers.claims import claim
from rota.papers.paper_page import Section, paper_page
from rota.papers.reproduce import PAPERS, Reproduction
from tests.unit.cli.test_bad_input import rota

CLAIMS = [claim("Makespan", paper=2.5, measured=2.4), claim("Cost", paper=1.4, measured=None, note="no run ended")]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, object]]:
    """What the experiment was asked, in an empty folder."""
    seen: list[dict[str, object]] = []

    def run(paper: str, **given: object) -> Reproduction:
        seen.append({"paper": paper, **given})
        html = paper_page("A paper", claims=CLAIMS, sections=[Section(key="s", title="S", lead="L")], facts={})
        return Reproduction(CLAIMS, html, 1.5)

    monkeypatch.setattr("rota.papers.reproduce.reproduce", run)
    monkeypatch.chdir(tmp_path)
    return seen


def test_json_is_the_contract_and_nothing_else(
    asked: list[dict[str, object]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = rota(
        capsys, monkeypatch, "reproduce", "gavel", "--quick", "--data", "there", "--html", "p.html", "-o", "json"
    )
    assert code == 0, err
    value = json.loads(out)
    assert set(value) == {"claims", "page", "seconds"} and value["page"] == "p.html" and value["seconds"] == 1.5
    assert value["claims"][0] == {"name": "Makespan", "paper": 2.5, "measured": 2.4, "unit": "x", "holds": True, "note": ""}
    assert value["claims"][1]["holds"] is None and value["claims"][1]["note"] == "no run ended"
    assert (asked[0]["paper"], asked[0]["quick"], asked[0]["data"]) == ("gavel", True, "there")
    assert "A paper" in Path("p.html").read_text(encoding="utf-8") and "page: p.html" in err


def test_a_table_for_people_and_rows_for_sheets(
    asked: list[dict[str, object]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = rota(capsys, monkeypatch, "reproduce", "gavel")
    assert code == 0 and "Makespan" in out and "2.4x" in out and "1 could not be judged" in out
    assert asked[0]["quick"] is False and Path("rota-gavel.html").exists()
    code, out, _ = rota(capsys, monkeypatch, "reproduce", "gavel", "-o", "csv")
    assert out.splitlines()[0] == "name,paper,measured,unit,holds,note" and len(out.splitlines()) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gavle",), "Closest: gavel"),
        (("tiresias", "--data", "."), "reads no data"),
        (("pal", "--data", "nowhere"), "profiles.json"),
        (("gandiva", "--data", "nowhere"), "simulation_throughputs.json"),
        (("gavel", "--data", "nowhere"), "simulation_throughputs.json"),
        (("gavel", "--html", "page.txt"), ".html"),
        (("gavel", "-o", "xml"), "not an output"),
    ],
)
def test_what_cannot_be_done_is_said_at_once(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = rota(capsys, monkeypatch, "reproduce", *words)
    assert code == 2 and not out and said in err and "Try:" in err
    assert not list(tmp_path.iterdir())


def test_help_names_the_papers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = rota(capsys, monkeypatch, "reproduce", "--help")
    assert code == 0 and all(name in out for name in PAPERS)
