"""The page in a real browser, from a file and without a network: that it shows what Python computed, and reacts."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

import rota
from rota.cli.demo import GPUS, POLICIES, race
from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.report.comparison import Comparison
from rota.report.result import Result, duration
from rota.report.results_page import page as page_of
from tests.browser.conftest import PATIENCE_MS, Opener
from tests.browser.pictures import describe
from tests.unit.report.made import large_result, result_of

HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(2)>",
    "🦊 émoji",
    "שלום \u202e abc",
    "javascript:alert(3)",
    "  ",
]

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def demo() -> Comparison:
    """Return the run of `rota demo` for pictures, so that README shows one run; else a run of its first 45 jobs."""
    if os.environ.get("ROTA_SCREENSHOTS"):
        return race(workers=1)
    return rota.compare(list(POLICIES), trace="race", elastic="gpus", variability=str(GPUS), workers=1, first=45)


@pytest.fixture(scope="module")
def demo_html(demo: Comparison) -> str:
    return page_of(demo)


def shoot(page: Page, tmp_path: Path, name: str, top: str, height: int, text: str = "") -> None:
    """A screenshot from an element on, kept where ROTA_SCREENSHOTS says. The picture carries `text` as its description."""
    folder = Path(os.environ.get("ROTA_SCREENSHOTS") or tmp_path)
    page.mouse.move(0, 0)
    box = page.locator(top).bounding_box()
    assert box is not None
    scrolled = page.evaluate("window.scrollY")
    page.screenshot(
        path=folder / name, full_page=True, clip={"x": 0, "y": max(box["y"] + scrolled - 8, 0), "width": 1280, "height": height}
    )
    assert (folder / name).stat().st_size > 10_000
    if text:
        describe(folder / name, text)


def colours(canvas: Locator) -> int:
    """Different colours on a canvas."""
    found = canvas.evaluate(
        "c => new Set(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size"
    )
    return int(found)


def settle(page: Page) -> None:
    """Changes are drawn in the next frame."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def range_of(page: Page) -> tuple[float, float]:
    settle(page)
    place = page.locator("#load .range")
    return float(place.get_attribute("data-from") or "nan"), float(place.get_attribute("data-to") or "nan")


def plot_of(chart: Locator) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the part with the data, in the window."""
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    left, top, right, bottom = json.loads(chart.get_attribute("data-plot") or "")
    return box["x"] + left, box["y"] + top, box["x"] + right, box["y"] + bottom


def gains(a: Result, b: Result) -> dict[str, int]:
    before, after = (result.record.finished_s - result.record.submitted_s for result in (a, b))
    same = np.abs(after - before) <= 0.01 * np.maximum(before, after)
    return {
        "faster": int((~same & (after < before)).sum()),
        "same": int(same.sum()),
        "slower": int((~same & (after > before)).sum()),
    }


def with_costs(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """The table of a comparison, with the column that a page adds to it."""
    heads, rows = comparison.cells()
    costs = [f"${line.summary['cost_dollars']:,.2f}" for line in comparison.lines]
    return [*heads, "COST"], [[*row, cost] for row, cost in zip(rows, costs, strict=True)]


def test_the_table_is_that_of_the_comparison(opened: Opener, demo: Comparison, demo_html: str) -> None:
    page = opened(demo_html)
    heads, rows = with_costs(demo)
    assert page.locator(".results thead .sort").all_inner_texts() == heads
    found = [row.locator("th, td").all_inner_texts() for row in page.locator(".results tbody tr").all()]
    assert [[cell.strip() for cell in row] for row in found] == rows


def test_every_chart_shows_something(opened: Opener, demo: Comparison, demo_html: str, tmp_path: Path) -> None:
    page = opened(demo_html)
    for chart in ("times", "busy", "queue"):
        expect(page.locator(f"#{chart}-chart path.curve")).to_have_count(len(POLICIES))
    for canvas in page.locator("#where-maps canvas").all():
        assert colours(canvas) > 20
    assert colours(page.locator("#gain-chart canvas")) > 20
    expect(page.locator("#jobs-table tbody tr")).to_have_count(20)
    for chart in page.locator("[role=img]").all():
        assert len(chart.get_attribute("aria-label") or "") > 30
    shoot(page, tmp_path, "page-top.png", "body", 1290, text=str(demo))
    shoot(page, tmp_path, "page-map.png", "#where", 815)
    shoot(page, tmp_path, "page-gain.png", "#gain", 860)
    shoot(page, tmp_path, "page-tenants.png", "#groups", 320)
    page.locator("#theme").click()
    settle(page)
    shoot(page, tmp_path, "page-dark.png", "#load", 1248)


def test_sorting(opened: Opener, demo: Comparison, demo_html: str) -> None:
    page = opened(demo_html)
    order = sorted(demo.lines, key=lambda line: line.summary["p99_jct_seconds"] or 0)
    head = page.locator(".results thead th", has_text="P99")
    labels = page.locator(".results tbody th")
    head.locator(".sort").click()
    assert [text.strip() for text in labels.all_inner_texts()] == [line.label for line in order]
    assert head.get_attribute("aria-sort") == "ascending"
    head.locator(".sort").click()
    assert [text.strip() for text in labels.all_inner_texts()] == [line.label for line in reversed(order)]


def test_definitions_are_one_click_away(opened: Opener, demo_html: str) -> None:
    page = opened(demo_html)
    box = page.locator("#definition")
    expect(box).to_be_hidden()
    page.locator(".results thead th", has_text="RHO").locator(".define").click()
    expect(box).to_be_visible()
    expect(box).to_contain_text("Finish-time fairness")
    page.keyboard.press("Escape")
    expect(box).to_be_hidden()
    page.locator(".facts .word", has_text="Offered load").click()
    expect(box).to_contain_text("the queue must grow")
    box.locator("a").click()
    expect(page.locator("#define-load")).to_be_in_viewport()


def test_time_zooms_by_dragging_wheel_keys_and_buttons_and_back(opened: Opener, demo_html: str) -> None:
    page = opened(demo_html)
    whole = range_of(page)
    chart = page.locator("#busy-chart svg")
    left, top, right, bottom = plot_of(chart)
    width, middle = right - left, (top + bottom) / 2
    page.mouse.move(left + width / 4, middle)
    page.mouse.down()
    page.mouse.move(left + width / 2, middle, steps=4)
    page.mouse.up()
    expect(page.locator("#load .range")).to_contain_text("after the first submission")
    assert range_of(page) == (pytest.approx(whole[1] / 4, rel=0.01), pytest.approx(whole[1] / 2, rel=0.01))
    # The map has the same range; a double click is for the whole.
    assert page.locator("#where .range").get_attribute("data-from") == page.locator("#load .range").get_attribute("data-from")
    page.mouse.dblclick(left + width / 2, middle)
    expect(page.locator("#load .range")).to_contain_text("all")
    assert range_of(page) == whole
    page.locator("#where .zoom button", has_text="+").click()
    expect(page.locator("#load .range")).not_to_contain_text("all")
    assert range_of(page) == (pytest.approx(whole[1] / 4), pytest.approx(whole[1] * 3 / 4))
    page.locator("#where .zoom button", has_text="Reset").click()
    expect(page.locator("#load .range")).to_contain_text("all")
    canvas = page.locator("#where-maps canvas").first
    canvas.focus()
    canvas.press("+")
    canvas.press("ArrowRight")
    expect(page.locator("#load .range")).not_to_contain_text("all")
    assert range_of(page) == (pytest.approx(whole[1] * 0.35), pytest.approx(whole[1] * 0.85))
    canvas.press("0")
    expect(page.locator("#load .range")).to_contain_text("all")
    left, top, right, bottom = plot_of(canvas)
    page.mouse.move(left, (top + bottom) / 2)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -400)
    page.keyboard.up("Control")
    expect(page.locator("#load .range")).not_to_contain_text("all")
    assert range_of(page) == (pytest.approx(0, abs=1), pytest.approx(whole[1] / np.e, rel=0.01))


def test_the_wheel_alone_scrolls_the_page(opened: Opener, demo_html: str) -> None:
    page = opened(demo_html)
    left, top, _, _ = plot_of(page.locator("#busy-chart svg"))
    before = page.evaluate("window.scrollY")
    page.evaluate("() => { window.scrolled = new Promise(done => addEventListener('scroll', done, { once: true })); }")
    page.mouse.move(left + 50, top + 50)
    page.mouse.wheel(0, 200)
    page.evaluate("() => window.scrolled.then(() => null)")
    settle(page)
    assert page.evaluate("window.scrollY") > before
    expect(page.locator("#load .range")).to_contain_text("all")


def test_the_map_names_the_job_under_the_pointer(opened: Opener, demo: Comparison, demo_html: str) -> None:
    page = opened(demo_html)
    for number, line in ((0, demo.lines[0]), (1, demo.best)):
        assert line is not None
        canvas = page.locator("#where-maps canvas").nth(number)
        holds, result = line.results[0].record.gpu_intervals, line.results[0]
        whole = range_of(page)[1]
        start = float(result.record.submitted_s.min())
        for i in np.argsort(holds.start_s - holds.end_s, kind="stable")[[0, 3, 8]].tolist():
            left, top, right, bottom = plot_of(canvas)
            at_s = (holds.start_s[i] + holds.end_s[i]) / 2 - start
            gpu = int(holds.gpus[holds.first[i]])
            x, y = left + at_s / whole * (right - left), top + (gpu + 0.5) / result.cluster.gpus * (bottom - top)
            page.mouse.move(x, y)
            job = int(holds.job[i])
            tip = page.locator("#tip")
            expect(tip.locator("b")).to_have_text(result.arrivals[job].spec.name)
            expect(tip).to_contain_text(duration(float(result.record.finished_s[job] - result.record.submitted_s[job])))
            expect(tip).to_contain_text(result.cluster.pools[result.cluster.gpu_pool[gpu]])
    page.mouse.down()
    page.mouse.up()
    expect(page.locator("#chosen b")).to_have_text(result.arrivals[job].spec.name)
    page.keyboard.press("Escape")
    expect(page.locator("#chosen")).to_be_hidden()


def test_the_map_can_show_another_policy_and_other_colours(opened: Opener, demo_html: str) -> None:
    page = opened(demo_html)
    canvas = page.locator("#where-maps canvas").first
    before = canvas.evaluate("c => c.toDataURL()")
    page.locator("#where-maps select").first.select_option(label="tiresias")
    after = canvas.evaluate("c => c.toDataURL()")
    assert before != after
    assert "tiresias" in (canvas.get_attribute("aria-label") or "")
    page.locator("#where-colour").select_option(label="number of GPUs")
    expect(page.locator("#where-legend")).to_contain_text("1 GPU")
    assert canvas.evaluate("c => c.toDataURL()") != after


def test_gains_and_losses_are_those_of_the_records(opened: Opener, demo: Comparison, demo_html: str) -> None:
    page = opened(demo_html)
    lead = page.locator("#gain-lead")
    for a, b in ((0, 5), (4, 1)):
        page.locator("#gain-from").select_option(str(a))
        page.locator("#gain-to").select_option(str(b))
        results = demo.lines[a].results[0], demo.lines[b].results[0]
        expected = gains(*results)
        assert {name: int(lead.get_attribute(f"data-{name}") or -1) for name in expected} == expected
        expect(lead).to_contain_text(
            f"{expected['faster']} jobs faster, {expected['slower']} slower, {expected['same']} the same"
        )
        before, after = (result.record.finished_s - result.record.submitted_s for result in results)
        worst = demo[0].arrivals[int(np.argmax(after - before))].spec.name
        expect(page.locator("#gain-lists table").first.locator("tbody tr").first).to_contain_text(worst)


def test_percentiles_are_read_from_the_curves(opened: Opener, demo: Comparison, demo_html: str) -> None:
    page = opened(demo_html)
    left, top, right, bottom = plot_of(page.locator("#times-chart svg"))
    page.mouse.move((left + right) / 2, (top + bottom) / 2)
    expect(page.locator("#tip b")).to_have_text("50% of the jobs within")
    for line in demo.lines:
        row = page.locator("#tip tr", has=page.get_by_text(line.label, exact=True))
        expect(row).to_contain_text(duration(line.summary["median_jct_seconds"]))
    page.locator("#times button", has_text="Queueing").click()
    page.locator("#times-data summary").click()
    waits = demo[0].record.finished_s - demo[0].record.submitted_s - demo[0].record.occupied_seconds
    expect(page.locator("#times-data tbody tr").first).to_contain_text(duration(float(np.quantile(waits, 0.9))))


def test_a_policy_can_be_hidden_and_one_looked_at_alone(opened: Opener, demo_html: str) -> None:
    page = opened(demo_html)
    page.locator("#times-legend button", has_text="gandiva").click()
    for chart in ("times", "busy", "queue"):
        expect(page.locator(f"#{chart}-chart path.curve")).to_have_count(len(POLICIES) - 1)
    page.locator("#load-run").select_option(label="srsf")
    expect(page.locator("#queue-chart path.curve")).to_have_count(1)
    expect(page.locator("#busy-legend")).to_have_text("V100P100K80")
    page.locator("#load-data summary").click()
    expect(page.locator("#load-data tbody tr")).to_have_count(24)


def test_searching_jobs(opened: Opener, demo: Comparison, demo_html: str) -> None:
    page = opened(demo_html)
    page.keyboard.press("/")
    expect(page.locator("#jobs-search")).to_be_focused()
    page.keyboard.type("job-1")
    names = [arrival.spec.name for arrival in demo[0].arrivals if "job-1" in arrival.spec.name]
    expect(page.locator("#jobs-count")).to_have_text(f"1 to {len(names)} of {len(names)} jobs")
    assert page.locator("#jobs-table tbody td:first-child").all_inner_texts() == names
    page.locator("#jobs-search").fill("no such job")
    expect(page.locator("#jobs-count")).to_have_text("No job matches.")
    page.locator("#jobs-search").fill("")
    page.locator("#jobs-next").click()
    expect(page.locator("#jobs-count")).to_have_text(f"21 to 40 of {len(demo[0].arrivals)} jobs")
    page.locator("#jobs-table th", has_text="JCT fifo").first.locator("button").click()
    expect(page.locator("#jobs-count")).to_have_text(f"1 to 20 of {len(demo[0].arrivals)} jobs")
    shortest = int(np.argmin(demo[0].record.finished_s - demo[0].record.submitted_s))
    row = page.locator("#jobs-table tbody tr").first
    expect(row).to_contain_text(duration(float(demo[0].record.finished_s[shortest] - demo[0].record.submitted_s[shortest])))
    row.locator("button").click()
    expect(page.locator("#jobs-table tbody tr").first).to_have_class("chosen-row")
    expect(page.locator("#chosen")).to_be_visible()


def test_dark_and_light(opened: Opener, demo_html: str) -> None:
    page = opened(demo_html)
    canvas = page.locator("#where-maps canvas").first
    light = page.evaluate("getComputedStyle(document.body).backgroundColor"), canvas.evaluate("c => c.toDataURL()")
    page.locator("#theme").click()
    expect(page.locator("#theme")).to_have_text("Light")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    settle(page)
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor"), canvas.evaluate("c => c.toDataURL()")
    assert light[0] == "rgb(255, 255, 255)" and dark[0] != light[0] and dark[1] != light[1]


def test_strangers_are_shown_as_text(opened: Opener) -> None:
    """A dialog, a message on the console or a request would fail the fixture."""
    arrivals = [Arrival(0.0, JobSpec(name=name, steps=60, tenant=name, user=name, profile=name)) for name in HOSTILE]
    cluster = Cluster.parse("6xV100")
    runs = {
        policy: [
            result_of(arrivals, cluster, [(i, [i], 0, 60.0 * (i + n + 1)) for i in range(6)], trace=HOSTILE[0], policy=policy)
        ]
        for n, policy in enumerate(HOSTILE[:4])
    }
    page = opened(page_of(Comparison(runs)))
    assert [text.strip() for text in page.locator(".results tbody th").all_text_contents()] == HOSTILE[:4]
    assert page.locator("h1").text_content() == f"4 policies on {HOSTILE[0]}"
    assert page.locator("#jobs-table tbody td:first-child").all_text_contents() == HOSTILE
    left, top, _, bottom = plot_of(page.locator("#where-maps canvas").first)
    page.mouse.move(left + 5, top + (bottom - top) / 12)
    assert page.locator("#tip b").text_content() == HOSTILE[0]
    page.mouse.down()
    page.mouse.up()
    assert page.locator("#chosen b").text_content() == HOSTILE[0]
    for select in ("#gain-to", "#load-run"):
        assert HOSTILE[1] in page.locator(f"{select} option").all_text_contents()
    page.locator("#where-colour").select_option(label="tenant")
    expect(page.locator("#where-legend")).to_contain_text(HOSTILE[1])
    page.locator("#jobs-search").fill("<script>")
    expect(page.locator("#jobs-count")).to_have_text("1 to 1 of 1 job")
    page.locator("#load-data summary").click()
    assert page.locator("img").count() == 0


def test_several_seeds(opened: Opener) -> None:
    comparison = rota.compare(["fifo", "srsf"], trace="synthetic:jobs=40,seed=1", cluster="24xV100", seeds=3)
    page = opened(page_of(comparison))
    heads, rows = with_costs(comparison)
    assert page.locator(".results thead .sort").all_inner_texts() == heads
    found = [row.locator("th, td").all_inner_texts() for row in page.locator(".results tbody tr").all()]
    assert [[cell.strip() for cell in row] for row in found] == rows
    expect(page.locator("#times-lead")).to_contain_text("Seed 0, one of 3.")
    expect(page.locator("#seed option")).to_have_text(["0", "1", "2"])


def test_another_seed_can_be_drawn(opened: Opener) -> None:
    comparison = rota.compare(["fifo", "srsf"], trace="synthetic:jobs=40,seed=1", cluster="6x(4xV100)", seeds=3)
    page = opened(page_of(comparison))
    table = page.locator(".results").inner_text()
    page.locator("#where-maps select").nth(1).select_option(label="fifo")
    page.locator("#times button", has_text="Queueing").click()
    page.locator("#jobs-search").fill("job-3")
    page.locator("#times-legend button", has_text="srsf").click()
    page.locator("#jobs-table tbody button").first.click()
    expect(page.locator("#chosen")).to_be_visible()
    before = page.locator("#where-maps canvas").first.evaluate("c => c.toDataURL()")
    for seed in (2, 1):
        page.locator("#seed").select_option(str(seed))
        expect(page.locator("html")).to_have_attribute("data-seed", str(seed))
        settle(page)
        expect(page.locator("#times-lead")).to_contain_text(f"Seed {seed}, one of 3.")
        assert page.locator("#where-maps canvas").first.evaluate("c => c.toDataURL()") != before
        fifo, srsf = (line.results[seed] for line in comparison.lines)
        assert {name: int(page.locator("#gain-lead").get_attribute(f"data-{name}") or -1) for name in gains(fifo, srsf)} == gains(
            fifo, srsf
        )
        # What was chosen stays chosen; a job is of one seed only, and the table is about all.
        expect(page.locator("#where-maps select").nth(1)).to_have_value("0")
        expect(page.locator("#times button", has_text="Queueing")).to_have_attribute("aria-pressed", "true")
        expect(page.locator("#jobs-search")).to_have_value("job-3")
        expect(page.locator("#times-chart path.curve")).to_have_count(1)
        expect(page.locator("#chosen")).to_be_hidden()
        assert page.locator(".results").inner_text() == table
    page.locator("h1").click()
    page.keyboard.press("/")
    expect(page.locator("#jobs-search")).to_be_focused()


@pytest.fixture(scope="module")
def wide_html() -> str:
    """Five seeds of four policies, with nodes that fail."""
    policies = ["fifo", "fifo:backfill=true", "srsf", "tiresias"]
    trace, cluster = "synthetic:jobs=40,seed=1", "4x(4xV100)"
    return page_of(rota.compare(policies, trace=trace, cluster=cluster, seeds=5, node_mtbf_seconds=40_000.0))


@pytest.mark.parametrize(("width", "fits"), [(1600, True), (1280, True), (900, False), (500, False)])
def test_every_cell_of_the_results_can_be_reached(opened: Opener, wide_html: str, width: int, fits: bool) -> None:
    page = opened(wide_html)
    page.set_viewport_size({"width": width, "height": 800})
    settle(page)
    box = page.locator("#results .scroll")
    inner, outer = box.evaluate("b => [b.scrollWidth, b.clientWidth]")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert outer >= min(width, 1400) - 56
    assert box.evaluate("b => getComputedStyle(b).overflowX") == "auto"
    hint, last = page.locator("#results .more"), page.locator(".results tbody tr").first.locator("td").last
    assert (inner <= outer) == fits
    if fits:
        expect(hint).to_be_hidden()
    else:
        expect(hint).to_contain_text("scroll it sideways")
        assert box.get_attribute("data-more") is not None
        box.focus()
        box.evaluate("b => b.scrollTo(b.scrollWidth, 0)")
        expect(box).not_to_have_attribute("data-more", "")
    # Every cell holds its text, and the last one ends within the box; the names stay in sight.
    assert page.locator(".results :is(th, td)").evaluate_all("cells => cells.every(c => c.scrollWidth <= c.clientWidth + 1)")
    right = box.evaluate("b => b.getBoundingClientRect().right")
    assert last.evaluate("c => c.getBoundingClientRect().right") <= right + 1
    names = page.locator(".results tbody th")
    assert all(cell.evaluate("c => c.getBoundingClientRect().left") >= 0 for cell in names.all())
    assert last.evaluate("c => c.getBoundingClientRect().left") >= names.first.evaluate("c => c.getBoundingClientRect().right")


def test_nodes_that_were_down(opened: Opener, demo_html: str) -> None:
    arrivals = [Arrival(0.0, JobSpec(name="long", gpus=2, steps=86400)), Arrival(0.0, JobSpec(name="short", steps=60))]
    result = result_of(arrivals, Cluster.parse("3x(2xV100)"), [(0, [0, 1], 0, 86400), (1, [2], 0, 60)])
    result.record.outages += [(2, 50_520.0, 52_320.0), (1, 100.0, 101.0), (2, 86_000.0, 90_000.0)]
    page = opened(page_of(Comparison({"p": [result]})))
    expect(page.locator(".facts")).to_contain_text("Node outages3")
    expect(page.locator("#failures")).to_contain_text("Nodes went down: 3 times.")
    expect(page.locator("#where-legend")).to_contain_text("hatched: the node was down")
    expect(page.locator("#where .lead")).to_contain_text("blank is idle, hatched: its node was down.")
    canvas = page.locator("#where-maps canvas")
    assert "3 outages of nodes" in (canvas.get_attribute("aria-label") or "")
    left, top, right, bottom = plot_of(canvas)

    def point(at_s: float, gpu: int) -> None:
        page.mouse.move(left + at_s / 86400 * (right - left), top + (gpu + 0.5) / 6 * (bottom - top))

    tip = page.locator("#tip b")
    for gpu in (4, 5):
        point(51_000, gpu)
        expect(tip).to_have_text("node n3 down 14:02 to 14:32")
    point(86_300, 4)
    expect(tip).to_have_text("node n3 down 23:53 to 1d 1:00")
    # Much shorter than a pixel, and seen all the same.
    page.mouse.move(left + round(100 / 86400 * (right - left)) + 0.5, top + 3.5 / 6 * (bottom - top))
    expect(tip).to_have_text("node n2 down 0:01:40.00 to 0:01:41.00")
    point(60_000, 4)
    expect(tip).to_have_text("idle")
    point(51_000, 0)
    expect(tip).to_have_text("long")
    shades = "c => new Set(new Uint32Array(c.getContext('2d').getImageData(%d, %d, 10, 20).data.buffer)).size"
    box = canvas.bounding_box()
    assert box is not None
    x, y = left - box["x"] + 51_000 / 86400 * (right - left), top - box["y"] + 4.6 / 6 * (bottom - top)
    assert canvas.evaluate(shades % (x, y)) == 2
    calm = opened(demo_html)
    expect(calm.locator("#where-down")).to_be_hidden()
    expect(calm.locator("#where-legend")).not_to_contain_text("hatched")
    expect(calm.locator("#failures")).to_have_count(0)


@pytest.mark.parametrize("width", [700, 1280])
def test_one_run_alone_on_a_narrow_and_a_wide_window(opened: Opener, width: int) -> None:
    page = opened(rota.simulate("demo", policy="srsf", cluster="6x(4xV100)").page())
    page.set_viewport_size({"width": width, "height": 800})
    expect(page.locator("#gain")).to_be_hidden()
    expect(page.locator("#where-maps canvas")).to_have_count(1)
    expect(page.locator("#times-chart svg")).to_be_visible()
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_runs_in_which_little_happened(opened: Opener) -> None:
    arrivals = [Arrival(5.0, JobSpec(steps=0)), Arrival(5.0, JobSpec(steps=1))]
    cluster = Cluster.parse("1xV100 + 1xK80")
    nothing = result_of(arrivals, cluster, [])
    instant = result_of(arrivals, Cluster.parse("2xA100"), [(0, [0], 5, 5), (1, [1], 5, 6)])
    page = opened(page_of(Comparison({"nothing": [nothing], "instant": [instant]})))
    expect(page.locator("#gain-lead")).to_contain_text("2 jobs did not finish under both")
    expect(page.locator("#jobs-count")).to_have_text("1 to 2 of 2 jobs")
    opened(page_of(Comparison({"nothing": [nothing]})))


def test_an_old_browser_is_told_and_still_has_the_table(opened: Opener, demo: Comparison, demo_html: str) -> None:
    page = opened(demo_html, ready=False, before="delete window.DecompressionStream")
    expect(page.locator("#trouble")).to_contain_text("it has no DecompressionStream")
    expect(page.locator(".results tbody tr")).to_have_count(len(demo.lines))
    expect(page.locator("#times")).to_be_hidden()


def test_a_damaged_file_says_so(opened: Opener, demo_html: str) -> None:
    damaged = re.sub(r'("type":"f64","data":")', r"\1AAAA", demo_html, count=1)
    page = opened(damaged, ready=False)
    expect(page.locator("#trouble")).to_contain_text("cannot be read")


def test_a_hundred_thousand_jobs(opened: Opener) -> None:
    runs = {name: large_result(100_000, 1_000, policy=name, seed=i, pieces=2 * i + 1) for i, name in enumerate(("one", "two"))}
    html = page_of(Comparison({name: [result] for name, result in runs.items()}))
    assert len(html) < 25_000_000
    page = opened(html)
    expect(page.locator("#where-maps figcaption").nth(1)).to_contain_text("a cell stands for 2 GPUs")
    for canvas in page.locator("#where-maps canvas").all():
        assert colours(canvas) > 20
    lead = page.locator("#gain-lead")
    expected = gains(runs["one"], runs["two"])
    assert {name: int(lead.get_attribute(f"data-{name}") or -1) for name in expected} == expected
    for _ in range(3):
        page.locator("#where .zoom button", has_text="+").click()
        page.locator("#where-rows button", has_text="+").click()
    expect(page.locator("#where .range")).to_contain_text("after the first submission")
    page.locator("#jobs-search").fill("job-7777")
    expect(page.locator("#jobs-count")).to_have_text("1 to 11 of 11 jobs")
    page.locator("#jobs-table tbody button").first.click()
    expect(page.locator("#chosen b")).to_have_text("job-7777")
