"""The page with few jobs and in a narrow window, by tenant and user, with costs, and the files behind its figures."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import rota
from rota.model.cluster import Cluster, Node
from rota.model.job import Arrival, JobSpec
from rota.report.comparison import Comparison
from rota.report.job_costs import job_costs
from rota.report.result import duration
from rota.report.results_page import page as page_of
from tests.browser.conftest import PATIENCE_MS, Opener
from tests.unit.report.made import result_of

expect.set_options(timeout=PATIENCE_MS)

NARROW = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def shared() -> Comparison:
    """Six tenants of four users each on nodes of two types."""
    trace, cluster = "synthetic:jobs=120,tenants=6,seed=1,load=1.2,gpus=16", "2x(4xV100) + 2x(4xA100)"
    return rota.compare(["fifo", "tiresias"], trace=trace, cluster=cluster)


@pytest.fixture(scope="module")
def shared_html(shared: Comparison) -> str:
    return page_of(shared)


def few(seconds: float) -> Comparison:
    """Three jobs that never wait."""
    cluster = Cluster.parse("2x(4xV100)")
    arrivals = [Arrival(0.0, JobSpec(name=name, steps=seconds)) for name in "abc"]
    holds = [(job, [job], 0.0, seconds * (job + 1) / 3) for job in range(3)]
    return Comparison({name: [result_of(arrivals, cluster, holds, policy=name)] for name in ("one", "two")})


def settle(page: Page) -> None:
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def ticks(page: Page, chart: str) -> list[str]:
    return page.locator(f"#{chart} svg text.tick").all_text_contents()


@pytest.mark.parametrize("seconds", [0.5, 7.0, 65.0, 700.0, 5_000.0, 90_000.0, 3e6])
def test_the_axes_of_few_jobs_have_several_ticks(opened: Opener, seconds: float) -> None:
    page = opened(page_of(few(seconds)))
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        settle(page)
        for chart in ("times-chart", "busy-chart"):
            found = ticks(page, chart)
            assert len(found) >= 3 and len(set(found)) == len(found), (width, chart, found)


OVERLAPS = """() => {
    const found = [];
    for (const svg of document.querySelectorAll('.chart svg')) {
        const boxes = Array.from(svg.querySelectorAll('text'), (text) => [text.textContent, text.getBoundingClientRect()]);
        for (let i = 0; i < boxes.length; i += 1) {
            const [word, a] = boxes[i];
            const whole = svg.getBoundingClientRect();
            if (a.width && (a.left < whole.left - 1 || a.right > whole.right + 1)) found.push(`${word} is cut`);
            for (let j = i + 1; j < boxes.length; j += 1) {
                const [other, b] = boxes[j];
                const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left),
                    high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
                if (wide > 1 && high > 3) found.push(`${word} and ${other}`);
            }
        }
    }
    return found;
}"""


@pytest.mark.parametrize("which", ["many", "a minute", "a month"])
def test_no_labels_collide(opened: Opener, shared_html: str, which: str) -> None:
    page = opened({"many": shared_html, "a minute": page_of(few(65.0)), "a month": page_of(few(3e6))}[which])
    for width in (1280, 390, 320):
        page.set_viewport_size({"width": width, "height": 844})
        settle(page)
        assert page.evaluate(OVERLAPS) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # Zoomed in, labels are longer: a day, hours and minutes.
        for _ in range(6):
            page.locator("#load .zoom button", has_text="+").click()
        settle(page)
        assert page.evaluate(OVERLAPS) == []
        page.locator("#load .zoom button", has_text="Reset").click()


def test_no_control_stands_over_nothing(opened: Opener) -> None:
    page = opened(page_of(few(60.0)))
    expect(page.locator("#queue-none")).to_have_text("No job ever waited.")
    expect(page.locator("#scattered-none")).to_be_visible()
    for hidden in (
        "#times-what",
        "#queue-chart",
        "#queue-note",
        "#scattered-tools",
        "#scattered-note",
        "#gain-order",
        "#jobs-turn",
    ):
        expect(page.locator(hidden)).to_be_hidden()
    for hidden in ("#moves-note", "#scattered-data", "#moves-data", "#span-some"):
        expect(page.locator(hidden)).to_be_hidden()
    expect(page.locator("#span-none")).to_have_text("No job had several GPUs.")
    expect(page.locator("#gain-lists")).to_have_text("No job is faster or slower.")


def test_no_job_finished(opened: Opener) -> None:
    nothing = result_of([Arrival(0.0, JobSpec(steps=1))], Cluster.parse("1xV100"), [])
    page = opened(page_of(Comparison({"one": [nothing], "two": [nothing]})))
    expect(page.locator("#times-lead")).to_contain_text("No job finished.")
    for hidden in ("#times-chart", "#times-what", "#times-data", "#gain-jobs"):
        expect(page.locator(hidden)).to_be_hidden()


def test_controls_are_there_where_there_is_something_to_choose(opened: Opener, shared_html: str) -> None:
    page = opened(shared_html)
    for shown in ("#times-what", "#queue-chart", "#scattered-tools", "#gain-order", "#jobs-turn", "#span-some"):
        expect(page.locator(shown)).to_be_visible()


def cells(page: Page) -> list[list[str]]:
    return [row.locator("td").all_inner_texts() for row in page.locator("#groups-table tbody tr").all()]


@pytest.mark.parametrize("key", ["tenant", "user"])
def test_tenants_and_users(opened: Opener, shared: Comparison, shared_html: str, key: str) -> None:
    page = opened(shared_html)
    page.locator("#groups-key").select_option(key)
    page.locator("#groups-run").select_option(label="tiresias")
    if page.locator("#groups-more").is_visible():
        page.locator("#groups-more").click()
    result = shared.line("tiresias").results[0]
    names = np.array([getattr(arrival.spec, key) for arrival in result.arrivals])
    jct = result.record.finished_s - result.record.submitted_s
    costs = job_costs(result)
    assert costs is not None
    expected = {}
    for name in dict.fromkeys(names.tolist()):
        own = names == name
        share = result.record.occupied_gpu_seconds[own].sum() / result.record.occupied_gpu_seconds.sum()
        words = "<1%" if share < 0.005 else f"{100 * share:.0f}%"
        expected[name] = (str(own.sum()), duration(float(jct[own].mean())), words, f"${costs[own].sum():,.2f}")
    found = {row[0].strip(): (row[1], row[2], row[6], row[8]) for row in cells(page)}
    assert {name: tuple(part.strip() for part in parts) for name, parts in found.items()} == expected
    expect(page.locator("#groups-count")).to_contain_text(f"of {len(expected)} {key}")


def test_one_run_has_costs_by_job(opened: Opener) -> None:
    cluster = Cluster.of([Node("n", "V100", 1)], "my.yaml", dollars_per_hour={"V100": 7.2})
    run = result_of([Arrival(0.0, JobSpec(name="one", steps=1800))], cluster, [(0, [0], 0, 1800)], policy="p")
    page = opened(page_of(Comparison({"p": [run]})))
    assert "Cost" in page.locator("#jobs-table thead").inner_text()
    expect(page.locator("#jobs-table tbody tr")).to_contain_text("$3.60")
    expect(page.locator(".results tbody tr")).to_contain_text("$3.60")
    page.locator(".results thead th", has_text="COST").locator(".define").click()
    expect(page.locator("#definition")).to_contain_text("list price")


def downloaded(page: Page, name: str, tmp_path: Path) -> list[dict[str, str]]:
    with page.expect_download(timeout=PATIENCE_MS) as waiting:
        page.locator(f'[data-csv="{name}"]').click()
    assert waiting.value.suggested_filename == f"rota-{name}.csv"
    file = tmp_path / f"{name}.csv"
    waiting.value.save_as(file)
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def test_every_figure_gives_its_data(opened: Opener, shared: Comparison, shared_html: str, tmp_path: Path) -> None:
    page = opened(shared_html)
    offered = [one.get_attribute("data-csv") or "" for one in page.locator("[data-csv]").all()]
    assert offered == ["results", "times", "load", "where", "floor", "spans", "scattered", "moves", "gain", "groups", "jobs"]
    assert all(one.is_visible() for one in page.locator("[data-csv]").all())
    # A browser lets a page give out ten files at once.
    found = {name: downloaded(page, name, tmp_path) for name in offered[:6]}
    page = opened(shared_html)
    found |= {name: downloaded(page, name, tmp_path) for name in offered[6:]}
    runs = {line.label: line.results[0] for line in shared.lines}
    fifo, tiresias = runs["fifo"], runs["tiresias"]
    jobs = len(fifo.arrivals)

    assert [row["POLICY"] for row in found["results"]] == list(runs)
    assert [float(row["MEAN JCT"]) for row in found["results"]] == [run.summary.mean_jct_seconds for run in runs.values()]
    jct = {label: run.record.finished_s - run.record.submitted_s for label, run in runs.items()}
    assert [float(row["jct_seconds"]) for row in found["times"][:jobs]] == pytest.approx(jct["fifo"].tolist(), abs=2e-3)
    assert len(found["load"]) == len(found["moves"]) == len(found["scattered"]) == 4096
    taken = sum(float(row["fifo busy V100"]) + float(row["fifo busy A100"]) for row in found["load"]) / 4096
    end = max(float(run.record.finished_s.max()) for run in runs.values()) - float(fifo.record.submitted_s.min())
    assert taken * end == pytest.approx(fifo.record.occupied_gpu_seconds.sum(), rel=1e-3)
    rows = [row for row in found["where"] if row["policy"] == "fifo"]
    drawn = sum(int(row["gpus"]) * (float(row["end_s"]) - float(row["start_s"])) for row in rows)
    assert drawn == pytest.approx(fifo.record.occupied_gpu_seconds.sum(), rel=1e-6)
    assert len(found["floor"]) == 2 * 16 and {row["accelerator"] for row in found["floor"]} == {"V100", "A100"}
    assert float(found["moves"][-1]["tiresias"]) == float(found["spans"][1]["moves"]) == tiresias.record.migrations.sum()
    assert [float(row["ratio"]) for row in found["gain"]] == pytest.approx((jct["tiresias"] / jct["fifo"]).tolist(), rel=1e-3)
    assert sum(int(row["jobs"]) for row in found["groups"] if row["policy"] == "fifo") == jobs
    costs = job_costs(tiresias)
    assert costs is not None
    assert [float(row["cost_dollars tiresias"]) for row in found["jobs"]] == pytest.approx(costs.tolist(), rel=1e-5)
    assert [row["tenant"] for row in found["jobs"]] == [arrival.spec.tenant or "" for arrival in fifo.arrivals]


def test_names_in_a_file_are_neither_formulas_nor_columns(opened: Opener, tmp_path: Path) -> None:
    names = ['=1+1,"x"', "@sum", "-2", "a\nb", "plain"]
    arrivals = [Arrival(0.0, JobSpec(name=name, steps=1, user="ana")) for name in names]
    run = result_of(arrivals, Cluster.parse("8xV100"), [(i, [i], 0, 10 + i) for i in range(5)], policy="p")
    page = opened(page_of(Comparison({"p": [run]})))
    found = [row["name"] for row in downloaded(page, "jobs", tmp_path)]
    assert found == ["'" + '=1+1,"x"', "'@sum", "'-2", "a\nb", "plain"]


def test_no_full_path_is_on_the_page(opened: Opener, tmp_path: Path) -> None:
    trace, cluster = tmp_path / "jobs.csv", tmp_path / "cluster.yaml"
    trace.write_text("submit_time,gpus,duration\n0,1,60\n5,2,60\n")
    cluster.write_text("nodes:\n  - {count: 2, accelerator: A100, gpus: 4}\n")
    found = rota.compare(["fifo", "srsf"], trace=str(trace), cluster=str(cluster))
    html = page_of(found)
    assert str(tmp_path) not in html
    page = opened(html)
    expect(page.locator(".facts")).to_contain_text("cluster.yaml: 2x(4xA100)")
    assert not re.search(r"(?<![\w.<])/(?:tmp|home|root)/", page.locator("body").inner_text())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_window_in_both_themes(opened: Opener, shared_html: str, scheme: str, tmp_path: Path) -> None:
    page = opened(shared_html)
    page.set_viewport_size(NARROW)  # type: ignore[arg-type]
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    page.screenshot(path=tmp_path / "narrow.png", full_page=True)
    assert (tmp_path / "narrow.png").stat().st_size > 50_000
