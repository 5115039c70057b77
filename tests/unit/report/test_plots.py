"""Pictures for notebooks: well-formed, legible, the same every time, and safe with any name."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import rota
from rota.errors import OptionError, UnknownNameError
from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.report.comparison import Comparison
from rota.report.plots import PALETTE, Series, chart, plot
from rota.report.result import Result
from tests.unit.report.made import large_result, result_of

WHAT = ("jct", "busy", "queue", "spread", "moves")
SVG = "{http://www.w3.org/2000/svg}"


def run(delay_s: float = 0.0, **params: object) -> Result:
    """Two jobs of one GPU, one after the other, the second this much later than it could be."""
    arrivals = [Arrival(0.0, JobSpec(steps=60)), Arrival(0.0, JobSpec(steps=3600))]
    return result_of(arrivals, Cluster.parse("1xV100"), [(0, [0], 0, 60), (1, [0], 60 + delay_s, 3660 + delay_s)], **params)


def several(count: int) -> Comparison:
    return Comparison({f"policy-{i}": [run(60.0 * i)] for i in range(count)})


def texts(svg: str) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@pytest.mark.parametrize("what", WHAT)
def test_a_picture_has_a_line_per_policy_and_axes_with_units(what: str) -> None:
    svg = plot(several(3), what).svg
    root = ElementTree.fromstring(svg)
    assert [path.get("stroke") for path in root.iter(f"{SVG}path")] == list(PALETTE[:3])
    shown = texts(svg)
    assert any(text.startswith("policy-2") for text in shown)
    wanted = {"jct": "job completion time (JCT)", "busy": "minutes since the first submission"}
    assert wanted.get(what, "minutes since the first submission") in shown
    titles = {"jct": "jobs", "busy": "busy GPUs", "queue": "waiting jobs", "spread": "GPUs", "moves": "moves"}
    assert titles[what] in shown
    assert not re.search(r"nan|inf", svg)


def test_the_bound_is_marked_and_the_mean_named() -> None:
    shown = texts(plot(several(2), "jct").svg)
    assert "no mean JCT below 31m" in [text.replace(".0m", "m") for text in shown]
    assert any(text.startswith("policy-0 31") for text in shown)


def test_a_curve_ends_where_all_jobs_are_done() -> None:
    path = next(ElementTree.fromstring(plot(several(1), "jct").svg).iter(f"{SVG}path")).get("d") or ""
    assert re.findall(r"V([\d.]+)", path)[-1] == "62.0"  # the top of the picture: 100%


def test_ticks_are_times_that_people_count_in() -> None:
    shown = texts(plot(several(1), "queue").svg)
    assert [text for text in shown if text.isdigit()] == ["0", "1", "0", "10", "20", "30", "40", "50", "60"]
    shown = texts(plot(Comparison({"large": [large_result(200, 24, policy="p", seed=1)]}), "jct").svg)
    assert {"1 min", "10 min", "1 h"} <= set(shown)


def test_moves_and_spreading_are_counted_in_the_legend() -> None:
    arrivals = [Arrival(0.0, JobSpec(gpus=2, steps=60))]
    holds = [(0, [0, 1], 0, 30), (0, [1, 2], 30, 40), (0, [0, 1], 40, 60)]
    comparison = Comparison({"p": [result_of(arrivals, Cluster.parse("2x(2xV100)"), holds)]})
    assert "p 2" in texts(plot(comparison, "moves").svg)
    assert "p 17%" in texts(plot(comparison, "spread").svg)


def test_the_first_seed_is_drawn_and_the_picture_says_so() -> None:
    svg = plot(Comparison({"p": [run(0.0), run(60.0)], "q": [run(60.0), run(0.0)]}), "queue").svg
    assert any("the first of 2 seeds" in text for text in texts(svg))
    assert "seeds" not in plot(several(2), "queue").svg


@pytest.mark.parametrize("what", WHAT)
def test_the_same_runs_give_the_same_text(what: str) -> None:
    assert plot(several(2), what).svg == plot(several(2), what).svg


@pytest.mark.parametrize("what", WHAT)
def test_names_are_text(what: str) -> None:
    label, trace = "<script>alert('1')</script>\"&", "</svg><b>"
    svg = plot(Comparison({label: [run(trace=trace)]}), what).svg
    assert "<script" not in svg and "<b>" not in svg
    assert any(label in text for text in texts(svg))
    assert any(trace in text for text in texts(svg))


def test_long_names_are_cut_and_many_lines_wrap_in_the_legend() -> None:
    runs = {f"tiresias:thresholds={'3250/' * i}7200,promote=8,service=seconds #{i}": [run()] for i in range(12)}
    root = ElementTree.fromstring(plot(Comparison(runs), "busy").svg)
    right = [float(node.get("x", 0)) for node in root.iter(f"{SVG}text")]
    assert max(right) < float(root.get("width", 0))
    assert any(path.get("stroke-dasharray") for path in root.iter(f"{SVG}path"))
    assert max(len(text) for text in texts(ElementTree.tostring(root, encoding="unicode"))) < 110


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize(
    "holds", [[], [(0, [0], 5, 5)], [(0, [0], 5, 5 + 4e6)]], ids=["nothing ran", "no time at all", "six weeks"]
)
def test_odd_runs_are_drawn_too(what: str, holds: list[tuple[int, list[int], float, float]]) -> None:
    result = result_of([Arrival(5.0, JobSpec(steps=1))], Cluster.parse("1xV100"), holds)
    svg = plot(Comparison({"p": [result]}), what).svg
    ElementTree.fromstring(svg)
    assert not re.search(r"\bnan\b|\binf\b", svg)


@pytest.mark.slow
def test_a_million_jobs_would_make_no_longer_text() -> None:
    small, large = (plot(Comparison({"p": [large_result(n, 24, policy="p", seed=1)]}), "jct").svg for n in (500, 20_000))
    assert len(large) < 2 * len(small) < 60_000


def test_it_saves_svg_and_no_other_vectors(tmp_path: Path) -> None:
    picture = plot(several(1))
    picture.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == picture.svg == picture._repr_svg_()
    with pytest.raises(OptionError, match=r"a plot is written as \.svg or \.png") as caught:
        picture.save(tmp_path / "a.pdf")
    assert caught.value.hint == 'plot.save("a.svg")'
    assert not (tmp_path / "a.png").exists()


def test_it_tells_itself_in_a_line() -> None:
    picture = plot(several(1), "queue")
    assert "Waiting jobs over time" in str(picture) and "\n" not in str(picture)
    assert repr(picture).startswith("<Plot: Waiting jobs over time") and "\n" not in repr(picture)


def test_what_there_is_no_picture_of() -> None:
    with pytest.raises(UnknownNameError, match=r"No plot 'quue'\. Closest: queue\. All: busy, jct, moves, queue, spread\."):
        plot(several(1), "quue")
    with pytest.raises(OptionError, match="no run to draw"):
        plot(Comparison({}), "jct")


def test_a_chart_of_any_figures() -> None:
    svg = chart(
        "Cost",
        "made up",
        [Series(label="one", x=[1, 2, 3], y=[5, float("nan"), 10]), Series(label="<two>", x=[1], y=[7], note="best")],
        x_title="load",
        y_title="dollars",
    ).svg
    root = ElementTree.fromstring(svg)
    assert len(list(root.iter(f"{SVG}circle"))) == 3, "what is not known is left out"
    assert [len(re.findall("[ML]", path.get("d") or "")) for path in root.iter(f"{SVG}path")] == [2, 1]
    shown = texts(svg)
    assert {"load", "dollars", "Cost", "made up", "<two> best", "0", "10"} <= set(shown)
    with pytest.raises(OptionError, match="no point"):
        chart("Empty", "", [Series(label="one", x=[1], y=[float("inf")])], x_title="x", y_title="y")


def test_a_logarithmic_axis_only_where_it_helps() -> None:
    def ticks(values: list[float]) -> list[str]:
        line = [Series(label="one", x=list(range(len(values))), y=values)]
        return texts(chart("T", "", line, x_title="x", y_title="y", log_y=True).svg)

    assert "0" in ticks([10, 15]) and {"10", "20", "50", "100"} <= set(ticks([10, 100]))
    assert "20" not in ticks([1, 5000]) and {"1", "10", "100", "1,000"} <= set(ticks([1, 5000]))


def test_a_png_needs_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = rota.simulate("synthetic:jobs=5", cluster="24xV100").plot("queue")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(rota.RotaError, match="a PNG needs matplotlib, which is not installed"):
        picture.save(tmp_path / "queue.png")
    assert not (tmp_path / "queue.png").exists()


@pytest.mark.parametrize("what", ["jct", "busy", "queue", "spread", "moves"])
def test_plots_are_written_as_png_where_matplotlib_is_there(tmp_path: Path, what: str) -> None:
    pytest.importorskip("matplotlib")
    picture = rota.compare(["fifo", "srsf"], trace="synthetic:jobs=30", cluster="6x(4xV100)").plot(what)
    picture.save(tmp_path / "one.png")
    picture.save(tmp_path / "two.png")
    data = (tmp_path / "one.png").read_bytes()
    assert data.startswith(b"\x89PNG") and len(data) > 10_000 and data == (tmp_path / "two.png").read_bytes()


@pytest.mark.parametrize("seconds", [0.5, 7.0, 65.0, 700.0, 5_000.0, 90_000.0, 3e6])
@pytest.mark.parametrize("what", ["jct", "busy"])
def test_the_time_axis_of_few_jobs_has_several_ticks(what: str, seconds: float) -> None:
    holds = [(job, [job], 0.0, seconds * (job + 1) / 3) for job in range(3)]
    few = result_of([Arrival(0.0, JobSpec(steps=seconds))] * 3, Cluster.parse("4xV100"), holds)
    svg = Comparison({"p": [few]}).plot(what).svg
    words = re.findall(r'<text[^>]*text-anchor="middle"[^>]*>([\d.,]+(?: (?:s|min|h|d))?)</text>', svg)
    assert len(words) >= 3 and len(set(words)) == len(words), words
