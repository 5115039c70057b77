"""The page of a reproduction in a real browser: no errors, no requests, and its curves are drawn."""

from playwright.sync_api import expect

from rota.papers.claims import claim
from rota.papers.paper_page import Section, paper_page
from rota.report.plots import Series, chart
from tests.browser.conftest import Opener


def test_claims_curves_and_figures(opened: Opener) -> None:
    claims = [claim("Makespan", paper=2.5, measured=2.4, note="<img src=x onerror=alert(1)>")]
    picture = chart("Makespan", "of few jobs", [Series(label="fifo", x=[1, 2], y=[3, 9])], x_title="jobs", y_title="hours")
    section = Section(
        key="makespan",
        title="Makespan",
        lead="How long.",
        claims=claims,
        plots=[picture],
        heads=["jobs", "1"],
        rows=[["fifo", "3h"]],
    )
    page = opened(paper_page("A paper", claims=claims, sections=[section], facts={"Cluster": "2xV100"}), ready=False)
    expect(page.locator("h1")).to_have_text("A paper")
    expect(page.locator(".claims tbody tr")).to_have_count(1)
    expect(page.locator(".claims .verdict")).to_have_text("holds")
    expect(page.locator(".claims")).to_contain_text("<img src=x")
    box = page.locator("#makespan svg").bounding_box()
    assert box is not None and box["width"] > 400
    page.locator("#makespan summary").click()
    expect(page.locator("#makespan details td").nth(1)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
