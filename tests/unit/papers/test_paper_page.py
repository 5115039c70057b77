"""The page of a reproduction: all of it is in one file, and names stay text."""

import re

from rota.papers.claims import claim
from rota.papers.paper_page import Section, figure, finding, paper_page
from rota.report.plots import Series, chart

CLAIMS = [
    claim("Good", paper=2.0, measured=2.0, note="a note"),
    claim("Bad", paper=2.0, measured=1.0),
    claim("<b>Unknown</b>", paper=2.0, measured=None, note="no {{policy}} ran"),
]


def made() -> str:
    picture = chart("Curve", "of two", [Series(label="a & b", x=[1, 2], y=[3, 4])], x_title="x", y_title="y")
    section = Section(
        key="one",
        title="One",
        lead="What it is.",
        claims=CLAIMS,
        plots=[picture],
        heads=["x"],
        rows=[["1"]],
        found=["It was seen."],
        problems=["it broke"],
    )
    bare = Section(key="two", title="Two", lead="No picture.", heads=["y"], rows=[["2"]])
    facts = {"Cluster": "2xV100"}
    return paper_page("A paper", claims=CLAIMS, sections=[section, bare], facts=facts, notes=["careful"], rule="And more.")


def test_claims_figures_and_verdicts_are_there() -> None:
    html = made()
    said = ("A paper", "2xV100", "careful", "it broke", "What it is.", "It was seen.", "a note", "Curve", "And more.")
    for words in (*said, "<td><bdi>1</bdi></td>"):
        assert words in html, words
    assert html.count("<details><") == 1 and html.count("<details open><") == 1, "a table without a picture is open"
    table = html[html.index("<tbody>") : html.index("</tbody>")]
    assert re.findall(r'class="verdict (\w+)"', table) == ["yes", "no", "unknown"]
    assert finding(CLAIMS) == "Of 2 published claims, 1 holds here. 1 could not be judged."
    assert finding(CLAIMS[1:2] * 2) == "Of 2 published claims, 0 hold here."


def test_it_loads_nothing_and_names_stay_text() -> None:
    html = made()
    assert "&lt;b&gt;Unknown&lt;/b&gt;" in html and "no {{policy}} ran" in html
    assert "default-src 'none'; style-src 'sha256-" in html and "<script" not in html
    assert not re.search(r'(?:src|href)="(?!#|data:)', html)


def test_figures_are_short() -> None:
    assert [figure(value, unit) for value, unit in ((2.4567, "x"), (42.0, "%"), (-0.0001, "points"), (None, "x"))] == [
        "2.46x",
        "42%",
        "-0.0001 points",
        "-",
    ]
    assert figure(-0.0, "%") == "0%"
