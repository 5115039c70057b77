"""The page's section about placement in a real browser: that it shows what Python computed, and reacts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import rota
from rota.beliefs.variability import Variability
from rota.model.cluster import Cluster, Node
from rota.model.job import Arrival, JobSpec
from rota.report.comparison import Comparison
from rota.report.placement import moves, per_gpu, spread
from rota.report.result import Result
from rota.report.results_page import page as page_of
from tests.browser.conftest import Opener
from tests.browser.test_page import HOSTILE, colours, plot_of, range_of, settle, shoot
from tests.unit.report.made import large_result, result_of

POLICIES = ["tiresias+packed", "tiresias+pal", "tiresias+random"]
SLOW = 21
"""A GPU that is far slower than the others for class A."""


@pytest.fixture(scope="module")
def placed(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Sixteen nodes in four racks, whose GPUs differ."""
    folder = tmp_path_factory.mktemp("placed")
    nodes = "\n".join(f"  - {{count: 4, accelerator: V100, gpus: 4, rack: row{1 + i // 2}/rack{i + 1}}}" for i in range(4))
    (folder / "cluster.yaml").write_text(f"nodes:\n{nodes}\n", encoding="utf-8")
    draw = np.random.default_rng(5)
    rows = []
    for name, width in (("A", 0.06), ("B", 0.02)):
        scores = np.exp(draw.normal(0, width, 64))
        scores /= np.median(scores)
        scores[SLOW] = 2.5 if name == "A" else 1.0
        rows += [f"{gpu},{name},{score:.4f}" for gpu, score in enumerate(scores.tolist())]
    (folder / "scores.csv").write_text("gpu,class,score\n" + "\n".join(rows) + "\n", encoding="utf-8")
    trace = "synthetic:jobs=300,seed=4,load=3,gpus=64"
    return rota.compare(POLICIES, trace=trace, cluster=str(folder / "cluster.yaml"), variability=folder / "scores.csv")


@pytest.fixture(scope="module")
def placed_html(placed: Comparison) -> str:
    return page_of(placed)


SPOT = """([cluster, node, cell]) => {
    const plan = floorPlan(cluster, Math.max(document.querySelector('#floor').clientWidth - 4, 260));
    return cellAt(plan, node, cell).map(at => at + 2 + plan.size / 2);
}"""
"""The middle of a square, by the page's own layout."""


def point(page: Page, run: Result, gpu: int) -> None:
    """Move the pointer to a GPU on the floor plan."""
    cluster = run.cluster
    racks = list(dict.fromkeys(node.rack for node in cluster.nodes))
    nodes = {
        "names": [node.name for node in cluster.nodes],
        "first": cluster.node_first.tolist(),
        "pool": cluster.node_pool.tolist(),
        "rack": {"names": racks, "code": [racks.index(node.rack) for node in cluster.nodes]},
    }
    node = int(cluster.gpu_node[gpu])
    told = [{"gpus": cluster.gpus, "pools": list(cluster.pools), "nodes": nodes}, node, gpu - int(cluster.node_first[node])]
    x, y = page.evaluate(SPOT, told)
    page.locator("#floor canvas").hover(position={"x": x, "y": y})


def tip(page: Page) -> dict[str, str]:
    rows = [row.locator("td").all_inner_texts() for row in page.locator("#tip tr").all()]
    return dict(rows)


def share(value: float) -> str:
    return "<1%" if 0 < value < 0.005 else f"{100 * value:.0f}%"


def test_gpus_out_of_service_are_crossed_out_and_named(opened: Opener, tmp_path: Path) -> None:
    (tmp_path / "scores.csv").write_text("gpu,class,score\n5,A,2.5\n", encoding="utf-8")
    found = rota.simulate(
        "synthetic:jobs=30,seed=1",
        policy="tiresias",
        cluster="2x(2x(4xV100))",
        variability=tmp_path / "scores.csv",
        cordon_slower_than=2.0,
        spread_penalty="1.2/1.3",
        wait_for_locality=True,
    )
    assert found.cordoned == (5,)
    page = opened(found.page())
    expect(page.locator("#floor-legend")).to_contain_text("crossed: out of service1")
    point(page, found, 5)
    expect(page.locator("#tip")).to_contain_text("out of it")
    facts = page.locator("dl").first
    for words in ("2x(2x(4xV100))", "1.2/1.3", "GPUs slower than 2.0", "close together", "scores.csv"):
        expect(facts).to_contain_text(words)


def test_a_gpu_tells_its_scores_and_what_it_did(opened: Opener, placed: Comparison, placed_html: str) -> None:
    page = opened(placed_html)
    for number, line in enumerate(placed.lines):
        run = line.results[0]
        assert run.variability is not None
        page.locator("#floor-run").select_option(str(number))
        found = per_gpu(run)
        for gpu in (0, SLOW, 34, 63):
            point(page, run, gpu)
            expect(page.locator("#tip b")).to_have_text(f"GPU {gpu}")
            expect(page.locator("#tip")).to_contain_text(f"GPU {gpu % 4} of n{gpu // 4 + 1}, V100")
            assert tip(page) == {
                "rack": f"row{1 + gpu // 32}/rack{1 + gpu // 16}",
                "class A": f"{run.variability.scores[0, gpu]:.2f}",
                "class B": f"{run.variability.scores[1, gpu]:.2f}",
                "busy": share(found.busy[gpu]),
                "jobs": f"{found.jobs[gpu]}",
            }
    page.mouse.move(2, 2)
    expect(page.locator("#tip")).to_be_hidden()


def test_colours_are_those_of_a_class_or_of_how_busy_gpus_were(opened: Opener, placed: Comparison, placed_html: str) -> None:
    page = opened(placed_html)
    run = placed.lines[0].results[0]
    assert run.variability is not None
    canvas, legend = page.locator("#floor canvas"), page.locator("#floor-legend")
    select = page.locator("#floor-colour")
    assert select.locator("option").all_inner_texts() == ["class A (300 jobs)", "class B (0 jobs)", "how busy"]
    scores, drawn = run.variability.scores, []
    for row, outliers in ((0, 1), (1, 0)):
        select.select_option(str(row))
        drawn.append(canvas.evaluate("c => c.toDataURL()"))
        # Every GPU is in one level, and they are counted.
        counts = [int(text) for text in legend.locator(".entry small").all_inner_texts()]
        assert sum(counts[:9]) == 64 and counts[9:] == [1] * outliers
        assert counts[0] == (scores[row] <= 0.95).sum() and counts[8] == (scores[row] > 2).sum()
        assert ("ringed: outlier" in legend.inner_text()) == bool(outliers)
        label = canvas.get_attribute("aria-label") or ""
        assert label.startswith("Floor plan of 64 GPUs on 16 nodes, each by how slow it is for class " + "AB"[row])
    page.locator("#floor-data summary").click()
    select.select_option("0")
    first = page.locator("#floor-data tbody tr").first
    assert first.locator("td").all_inner_texts()[:4] == [str(SLOW), "n6", "row1/rack2", "2.50"]
    select.select_option("busy")
    expect(page.locator("#floor-lead")).to_contain_text("how much of the time")
    labels = ["never", "up to 20%", "20 to 40%", "40 to 60%", "60 to 80%", "80 to 100%"]
    expect(legend.locator(".entry")).to_contain_text(labels)
    busiest = int(np.argmax(per_gpu(run).busy))
    expect(first).to_contain_text(share(per_gpu(run).busy[busiest]))
    drawn.append(canvas.evaluate("c => c.toDataURL()"))
    assert len(set(drawn)) == 3


def test_the_slow_gpu_stands_out_in_both_themes(opened: Opener, placed_html: str, tmp_path: Path) -> None:
    page = opened(placed_html)
    canvas = page.locator("#floor canvas")
    light = canvas.evaluate("c => c.toDataURL()")
    assert colours(canvas) > 6
    shoot(page, tmp_path, "page-placement.png", "#placement", 664)
    page.locator("#theme").click()
    settle(page)
    assert canvas.evaluate("c => c.toDataURL()") != light


def test_keys_go_from_gpu_to_gpu(opened: Opener, placed_html: str) -> None:
    page = opened(placed_html)
    canvas = page.locator("#floor canvas")
    canvas.focus()
    for key, gpu in (("ArrowRight", 0), ("ArrowRight", 1), ("ArrowLeft", 0), ("ArrowLeft", 63), ("ArrowRight", 0)):
        canvas.press(key)
        expect(page.locator("#tip b")).to_have_text(f"GPU {gpu}")
    page.locator("#floor-colour").focus()
    expect(page.locator("#tip")).to_be_hidden()


def test_jobs_of_several_gpus_and_moves_are_those_of_the_records(opened: Opener, placed: Comparison, placed_html: str) -> None:
    page = opened(placed_html)
    rows = page.locator("#span-table tbody tr").all()
    assert len(rows) == len(placed.lines)
    for row, line in zip(rows, placed.lines, strict=True):
        found, moved = spread(line.results[0]), len(moves(line.results[0]))
        cells = [cell.strip() for cell in row.locator("td").all_inner_texts()]
        assert cells[:2] == [line.label, str(found.jobs)]
        assert cells[2].startswith(f"{found.one_node} (") and cells[3].startswith(f"{found.beyond} (")
        assert cells[5] == share(found.one_node_gpu_seconds / found.gpu_seconds)
        assert cells[7:] == [f"{found.nodes_beyond:.2f}", f"{moved:,}"]
        assert row.locator("rect").count() == 3
        expect(page.locator("#moves-legend button", has_text=line.label)).to_contain_text(f"{moved:,}")
    # At the right edge all moves are made; the range of time is that of the other charts.
    left, top, right, bottom = plot_of(page.locator("#moves-chart svg"))
    page.mouse.move(right - 1, (top + bottom) / 2)
    told = tip(page)
    assert told == {line.label: f"{len(moves(line.results[0])):,}" for line in placed.lines}
    whole = range_of(page)[1]
    page.mouse.move(left + (right - left) / 2, (top + bottom) / 2)
    page.mouse.down()
    page.mouse.move(right - 1, (top + bottom) / 2, steps=4)
    page.mouse.up()
    assert range_of(page)[0] == pytest.approx(whole / 2, rel=0.01)
    page.locator("#placement .zoom button", has_text="Reset").click()
    for chart in ("scattered", "moves"):
        expect(page.locator(f"#{chart}-chart path.curve")).to_have_count(len(POLICIES))
    page.locator("#scattered-legend button", has_text="random").click()
    for chart in ("scattered", "moves", "busy"):
        expect(page.locator(f"#{chart}-chart path.curve")).to_have_count(len(POLICIES) - 1)


def test_without_scores_gpus_are_coloured_by_how_busy_they_were(opened: Opener) -> None:
    run = result_of([Arrival(0.0, JobSpec(name="one", steps=60))], Cluster.parse("2x(2xV100) + 4xK80"), [(0, [3], 0, 60)])
    page = opened(page_of(Comparison({"p": [run]})))
    expect(page.locator("#floor-colour")).to_be_hidden()
    expect(page.locator("#floor-run")).to_be_hidden()
    point(page, run, 3)
    expect(page.locator("#tip b")).to_have_text("GPU 3")
    assert tip(page) == {"busy": "100%", "jobs": "1"}
    point(page, run, 6)
    assert tip(page) == {"busy": "0%", "jobs": "0"}
    expect(page.locator("#scattered-none")).to_be_visible()
    expect(page.locator("#moves-none")).to_be_visible()
    expect(page.locator("#moves-chart")).to_be_hidden()
    expect(page.locator("#span-none")).to_have_text("No job had several GPUs.")
    expect(page.locator("#span-some")).to_be_hidden()


def test_one_node_with_scores_has_no_table_of_nodes_and_one_without_no_section(opened: Opener) -> None:
    run = result_of([Arrival(0.0, JobSpec(steps=60))], Cluster.parse("4xV100"), [(0, [3], 0, 60)])
    page = opened(page_of(Comparison({"p": [replace(run, variability=Variability.alike(4))]})))
    expect(page.locator("#floor canvas")).to_be_visible()
    expect(page.locator("#spans")).to_be_hidden()
    page = opened(page_of(Comparison({"p": [run]})))
    expect(page.locator("#placement")).to_have_count(0)
    expect(page.locator("#times-chart svg")).to_be_visible()


def test_racks_classes_and_nodes_of_strangers_are_shown_as_text(opened: Opener) -> None:
    """A dialog, a message on the console or a request would fail the fixture."""
    cluster = Cluster.of([Node(name, "V100", 1, name) for name in HOSTILE], "strange.yaml")
    run = result_of([Arrival(0.0, JobSpec(steps=60))], cluster, [(0, [0], 0, 60)])
    scores = np.ones((len(HOSTILE), len(HOSTILE)))
    page = opened(page_of(Comparison({HOSTILE[0]: [replace(run, variability=Variability(tuple(HOSTILE), scores, scores * 0))]})))
    for i, name in enumerate(HOSTILE):
        page.locator("#floor-colour").select_option(str(i))
        point(page, run, i)
        expect(page.locator("#tip b")).to_have_text(f"GPU {i}")
        texts = page.locator("#tip td").all_text_contents()
        assert texts[1] == name and f"class {name}" in texts
    page.locator("#floor-data summary").click()
    expect(page.locator("#floor-data tbody tr")).to_have_count(len(HOSTILE))
    assert page.locator("img").count() == 0


def test_another_seed_keeps_what_was_chosen(opened: Opener) -> None:
    policies = ["fifo+packed", "fifo+random"]
    comparison = rota.compare(policies, trace="synthetic:jobs=30,seed=1", cluster="6x(4xV100)", seeds=2)
    page = opened(page_of(comparison))
    page.locator("#floor-run").select_option("1")
    page.locator("#seed").select_option("1")
    expect(page.locator("html")).to_have_attribute("data-seed", "1")
    settle(page)
    expect(page.locator("#floor-run")).to_have_value("1")
    run = comparison.lines[1].results[1]
    point(page, run, 5)
    assert tip(page) == {"busy": share(per_gpu(run).busy[5]), "jobs": f"{per_gpu(run).jobs[5]}"}


@pytest.mark.parametrize("width", [500, 1600])
def test_the_section_fits_the_window(opened: Opener, placed_html: str, width: int) -> None:
    page = opened(placed_html)
    page.set_viewport_size({"width": width, "height": 800})
    settle(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#floor canvas").evaluate("c => c.clientHeight") < 520


@pytest.mark.parametrize(("gpus", "what"), [(16_384, "A square is a GPU"), (65_536, "Too many GPUs to draw each")])
def test_a_large_cluster(opened: Opener, gpus: int, what: str) -> None:
    run = large_result(3_000, gpus, policy="p", seed=1)
    scores = np.random.default_rng(1).lognormal(0, 0.03, (2, gpus))
    scores[0, gpus // 2 + 1] = 3.0
    html = page_of(Comparison({"p": [replace(run, variability=Variability(("A", "B"), scores, np.zeros_like(scores)))]}))
    assert len(html) < 600_000 + 16 * gpus
    page = opened(html)
    expect(page.locator("#floor-lead")).to_contain_text(what)
    assert page.locator("#floor canvas").evaluate("c => c.clientHeight") < 520
    point(page, run, gpus // 2 + 1) if gpus < 20_000 else page.locator("#floor canvas").hover(position={"x": 9, "y": 9})
    expect(page.locator("#tip")).to_contain_text("3.00" if gpus < 20_000 else "class A, slowest")
    page.locator("#floor-colour").select_option("busy")
    expect(page.locator("#floor-legend")).to_contain_text("never")
    expect(page.locator("#floor-legend .entry small").first).to_have_text(f"{(per_gpu(run).busy == 0).sum():,}")
