"""The page as text: its contents, that it is safe, and that it is the same every time. Its behaviour is in tests/browser."""

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from html import unescape
from importlib import resources
from typing import Any

import numpy as np
import pytest

from rota.beliefs.variability import Variability
from rota.compose.study import Study
from rota.errors import OptionError
from rota.model.cluster import Cluster, Node
from rota.model.job import Arrival, JobSpec
from rota.report.comparison import Comparison
from rota.report.page_text import without_folders
from rota.report.result import Result
from rota.report.results_page import SCRIPTS, page
from rota.report.timeline import busy, edges, queue
from tests.unit.report.made import large_result, result_of

HOSTILE = "</script><script>alert(1)</script>&\u2028\u2029'\"{{script}}"
TWO = Cluster.parse("1xV100 + 1xK80")


def run(first_s: float = 0.0, second_s: float = 60.0, **params: Any) -> Result:
    """Two jobs of a minute and an hour, which start then."""
    arrivals = [
        Arrival(0.0, JobSpec(name="short", steps=60, tenant="a")),
        Arrival(0.0, JobSpec(name=HOSTILE, steps=3600, tenant=HOSTILE, user="b", profile="c")),
    ]
    holds = [(0, [0], first_s, first_s + 60), (1, [0], second_s, second_s + 3600)]
    return result_of(arrivals, TWO, holds, **params)


def pair() -> Comparison:
    return Comparison({"one": [run()], "two": [run(3600, 0)]})


def text_of(html: str, pattern: str) -> str:
    found = re.search(pattern, html, re.DOTALL)
    assert found is not None, pattern
    return unescape(re.sub(r"<[^>]+>", "", found[1]))


def data_of(html: str, seed: int = 0) -> Any:
    """What the browser makes of it: the runs of a seed, with what seeds share."""
    whole = json.loads(data_block(html))
    return unpacked({**whole, **whole["seeds"][seed], "jobs": whole["jobs"][whole["seeds"][seed]["jobs"]]})


def unpacked(value: Any) -> Any:
    """What the browser does with packed arrays."""
    if isinstance(value, list):
        return [unpacked(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if "type" not in value:
        return {name: unpacked(inner) for name, inner in value.items()}
    planes = zlib.decompress(base64.b64decode(value["data"]))
    if value["type"] == "text":
        return json.loads(planes)
    kind = np.dtype(f"<{value['type'][0]}{int(value['type'][1:]) // 8}")
    return np.frombuffer(planes, np.uint8).reshape(kind.itemsize, -1).T.copy().view(kind).reshape(-1)


def test_the_finding_is_a_sentence() -> None:
    finding = r'<p class="finding">(.*?)</p>'
    assert (
        text_of(page(pair()), finding)
        == "one has the lowest mean JCT: 31.0 min, 1.95x better than two; no schedule could be below 30.5 min."
    )
    turned = Comparison({"two": [run(3600, 0)], "one": [run()], "three": [run(0, 3600)]})
    assert text_of(page(turned), finding).startswith("one has the lowest mean JCT: 31.0 min, 1.95x better than two;")
    alone = Comparison({"one": [run()]})
    assert text_of(page(alone), finding) == "one has a mean JCT of 31.0 min; no schedule could be below 30.5 min."
    alike = Comparison({"one": [run()], "two": [run()]})
    assert "one has the lowest mean JCT: 31.0 min, about the same as two;" in text_of(page(alike), finding)
    nothing = result_of([Arrival(0.0, JobSpec(steps=1))], TWO, [])
    assert text_of(page(Comparison({"p": [nothing]})), finding) == "No job finished."


def test_seeds_say_how_sure_that_is() -> None:
    finding = r'<p class="finding">(.*?)</p>'
    sure = Comparison({"two": [run(3600, 0), run(3700, 0)], "one": [run(), run()]})
    assert "better than two (95% interval over 2 seeds: " in text_of(page(sure), finding)
    luck = Comparison({"two": [run(), run(3600, 0)], "one": [run(), run()]})
    assert "better than two on average over 2 seeds, which may be luck;" in text_of(page(luck), finding)
    first = Comparison({"one": [run(), run()], "two": [run(3600, 0), run(3700, 0)]})
    assert "better than two on average over 2 seeds;" in text_of(page(first), finding)
    assert data_of(page(pair()))["about"] == ""


def seeds(count: int) -> Comparison:
    return Comparison({"one": [run(60.0 * n, seed=n) for n in range(count)], "two": [run(3600, 0, seed=n) for n in range(count)]})


def test_few_seeds_are_all_there_to_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    html = page(seeds(5))
    whole = json.loads(data_block(html))
    assert [seed["seed"] for seed in whole["seeds"]] == ["0", "1", "2", "3", "4"]
    assert len(whole["jobs"]) == 1  # the same jobs under every seed
    assert len(whole["clusters"]) == 1
    for number, first in enumerate(seeds(5).lines[0].results):
        data = data_of(html, number)
        assert data["runs"][0]["finished"].tolist() == first.record.finished_s.tolist()
        assert data["about"] == f" Seed {number}, one of 5."
    assert len(json.loads(data_block(page(seeds(6))))["seeds"]) == 1
    assert data_of(page(seeds(6)))["about"] == " The first of 6 seeds."
    monkeypatch.setattr("rota.report.results_page.MAX_JOBS", 7)
    assert data_of(page(seeds(2)))["about"] == " The first of 2 seeds."


def test_seeds_may_have_different_jobs() -> None:
    other = result_of([Arrival(5.0, JobSpec(name="other", gpus=2, steps=1))], TWO, [(0, [0, 1], 5, 7)], seed=1)
    html = page(Comparison({"one": [run(), other]}))
    assert data_of(html, 1)["jobs"]["name"] == ["other"]
    assert data_of(html, 1)["end"] == 2
    with pytest.raises(OptionError, match="not of the same jobs"):
        page(Comparison({"one": [run(), other], "two": [run(), run()]}))


def test_the_table_has_the_cells_of_the_comparison_and_every_heading_a_definition() -> None:
    for comparison in (pair(), Comparison({"one": [run(), run(60)], "two": [run(3600, 0), run(3700, 0)]})):
        html = page(comparison)
        heads, rows = comparison.cells()
        heads = [*heads, "COST"]
        rows = [[*row, f"${line.summary['cost_dollars']:,.2f}"] for row, line in zip(rows, comparison.lines, strict=True)]
        head = re.search(r"<thead>(.*?)</thead>", html, re.DOTALL)
        body = re.search(r"<tbody>(.*?)</tbody>", html, re.DOTALL)
        assert head is not None and body is not None
        cells = re.findall(r"<th scope=\"col\">(.*?)</th>", head[1])
        assert [text_of(cell, r"<span>(.*?)</span>") for cell in cells] == heads
        for cell in cells:
            target = re.search(r'href="#(define-[\w-]+)"', cell)
            assert target is not None, cell
            assert f'<dt id="{target[1]}">' in html
        found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", body[1], re.DOTALL)]
        assert [[text_of(cell, r"^(.*)$") for cell in row] for row in found] == rows


def test_load_and_bounds_stand_beside_the_numbers() -> None:
    html = page(pair())
    assert "mean JCT 30.5m, makespan " in text_of(html, r'<dl class="facts">(.*?)</dl>')
    assert "30.5m" in text_of(html, r"<tfoot>(.*?)</tfoot>")
    assert "offered load" in text_of(html, r'<p class="note">(.*?)</p>')


def test_the_settings_are_named() -> None:
    facts = text_of(
        page(Comparison({"p": [run(skipped=1200, decide="rounds", round_seconds=360.0)]})), r'<dl class="facts">(.*?)</dl>'
    )
    for fact in (
        "Tracemade",
        "Jobs2",
        "Skipped1,200",
        "Cluster1xV100 + 1xK80",
        "Presetideal",
        "Seed0",
        "Decides atrounds",
        "Round6.00m",
    ):
        assert fact in facts


FACTS = r'<dl class="facts">(.*?)</dl>'


def test_a_cluster_from_a_file_is_told() -> None:
    nodes = [Node(f"n{n}", "A100", 8) for n in range(4)] + [Node(f"m{n}", "V100", 4) for n in range(2)]
    prices, links = {"A100": 2.9, "V100": 1250.5}, {"A100": 300.0}
    cluster = Cluster.of(nodes, "my.yaml", dollars_per_hour=prices, intra_node_gb_s=links, inter_node_gb_s=12.5)
    result = result_of([Arrival(0.0, JobSpec(steps=1))], cluster, [(0, [0], 0, 1)], profile="rates.csv")
    facts = text_of(page(Comparison({"p": [result]})), FACTS)
    assert "Clustermy.yaml: 4x(8xA100) + 2x(4xV100)Links300 GB/s inside A100 nodes, 12.5 GB/s between nodes" in facts
    assert "PricesA100 $2.9, V100 $1,250.5 per GPU and hourProfilerates.csvPlacer" in facts


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("8xV100 + 2x(4xK80)", "8xV100 + 2x(4xK80)"),
        (" + ".join(["1x(8xA100)"] * 20), "20x(8xA100)"),
        (
            " + ".join(["1x(2xA100)", "1x(1xK80)"] * 9),
            " + ".join(["1x(2xA100)", "1x(1xK80)"] * 4) + " + 10 more nodes, 27 GPUs in all",
        ),
    ],
)
def test_a_cluster_in_words_is_told_once(text: str, told: str) -> None:
    result = result_of([Arrival(0.0, JobSpec(steps=1))], Cluster.parse(text), [(0, [0], 0, 1)])
    facts = text_of(page(Comparison({"p": [result]})), FACTS)
    assert f"Cluster{told}Placer" in facts
    assert "Links" not in facts and "Prices" not in facts and "Profile" not in facts


def test_notes_stand_out() -> None:
    html = page(Comparison({"p": [run(notes=["two jobs have no name", HOSTILE])], "q": [run(notes=["two jobs have no name"])]}))
    assert text_of(html, r'<ul class="notes"[^>]*>(.*?)</ul>') == f"two jobs have no name{HOSTILE}"
    assert 'class="notes"' not in page(pair())


def test_outages_of_nodes_are_told_and_drawn() -> None:
    def failed(count: int, **params: Any) -> Result:
        result = run(**params)
        # The last is after all is over.
        result.record.outages += [(1, 4.0 * n, 4.0 * n + 2) for n in range(count)] + [(0, 4000.0, 5000.0)]
        lost = {**result.summary.to_dict(), "lost_gpu_seconds": 1800.0 * count}
        summary = type(result.summary)(**lost)  # type: ignore[arg-type]
        return Result(summary, result.params, result.record, result.arrivals, result.cluster, study=result.study)

    html = page(Comparison({"p": [failed(3)]}))
    assert "Node outages3Offered" in text_of(html, FACTS)
    sentence = r'<p class="note" id="failures">(.*?)</p>'
    assert text_of(html, sentence) == "Nodes went down: 3 times. GPU-hours of work lost to that: 1.5."
    down = data_of(html)["runs"][0]["outages"]
    assert [down[name].tolist() for name in ("node", "start", "end")] == [[1, 1, 1], [0, 4, 8], [2, 6, 10]]
    assert text_of(page(Comparison({"p": [failed(1)]})), sentence).startswith("Nodes went down: 1 time. ")
    html = page(Comparison({"p": [failed(3), failed(5)], HOSTILE: [failed(3), failed(801)]}))
    assert "Node outages3 to 801 per run" in text_of(html, FACTS)
    told = "Nodes went down: 3 to 801 times per run. GPU-hours of work lost to that, mean over the seeds: p 2, "
    assert text_of(html, sentence) == f"{told}{HOSTILE} 201."
    assert "failures" not in page(pair()) and "outages" not in text_of(page(pair()), FACTS)
    assert data_of(page(pair()))["runs"][0]["outages"]["node"].tolist() == []


def test_the_data_is_that_of_the_record() -> None:
    comparison = pair()
    data = data_of(page(comparison))
    assert data["jobs"]["name"] == ["short", HOSTILE]
    assert data["jobs"]["tenant"]["names"] == ["a", HOSTILE]
    assert data["jobs"]["tenant"]["code"].tolist() == [0, 1]
    assert [found["label"] for found in data["runs"]] == ["one", "two"]
    at = edges(list(comparison), data["bins"])
    for found, result in zip(data["runs"], comparison, strict=True):
        assert found["finished"].tolist() == result.record.finished_s.tolist()
        assert found["first"].tolist() == result.record.first_run_s.tolist()
        assert found["held"].tolist() == result.record.occupied_seconds.tolist()
        assert found["busy"] == pytest.approx(busy(result, at).reshape(-1), rel=1e-6)
        assert found["queue"] == pytest.approx(queue(result, at), rel=1e-6)
        assert found["map"]["job"].tolist() == result.record.gpu_intervals.job.tolist()
        assert found["map"]["seconds_per_cell"] == 0
    assert data["clusters"] == [data["clusters"][0]]
    assert data["clusters"][0]["pools"] == ["V100", "K80"]


def scored(classes: tuple[str, ...], *rows: list[float]) -> Variability:
    return Variability(classes, np.array(rows), np.zeros((len(rows), len(rows[0]))))


def test_placement_is_that_of_the_record() -> None:
    nodes = [Node("a", "V100", 2, "row1/r1"), Node("b", "V100", 2, HOSTILE), Node("c", "V100", 2, "row1/r1")]
    arrivals = [Arrival(0.0, JobSpec(gpus=2, steps=60)), Arrival(0.0, JobSpec(gpus=2, steps=60))]
    holds = [(0, [0, 1], 0, 30), (0, [1, 2], 30, 60), (1, [4, 5], 0, 60)]
    whole = result_of(arrivals, Cluster.of(nodes, "my.yaml"), holds)
    known = scored(("A", HOSTILE), [1.0] * 5 + [2.0], [1.0, 1.1, 0.9, 1.0, 1.0, 1.0])
    same = scored(("A", HOSTILE), [1.0] * 5 + [2.0], [1.0, 1.1, 0.9, 1.0, 1.0, 1.0])
    other = scored(("A",), [1.0] * 6)
    runs = {str(i): [replace(whole, variability=each)] for i, each in enumerate((known, None, same, other))}
    html = page(Comparison(runs))
    assert 'id="placement"' in html and 'href="#placement"' in html and "alert(1)</script>" not in html
    data = data_of(html)
    assert data["clusters"][0]["nodes"]["rack"]["names"] == ["row1/r1", HOSTILE]
    assert data["clusters"][0]["nodes"]["rack"]["code"].tolist() == [0, 1, 0]
    # What runs have in common is there once.
    assert [found["scores"] for found in data["runs"]] == [0, None, 0, 1]
    assert [scores["classes"] for scores in data["scores"]] == [["A", HOSTILE], ["A"]]
    assert data["scores"][0]["values"] == pytest.approx(known.scores.reshape(-1), rel=1e-6)
    assert data["scores"][1]["outlier"] == [1]
    placed = data["runs"][0]["placement"]
    assert placed["busy"].tolist() == [5000, 10000, 5000, 0, 10000, 10000]
    assert placed["jobs"].tolist() == [1, 1, 1, 0, 1, 1]
    assert [found["placement"]["class_jobs"] for found in data["runs"]] == [[2, 0], [], [2, 0], [2]]
    assert placed["spread"]["beyond_gpu_seconds"] == 60 and placed["spread"]["nodes_beyond"] == 0.25
    assert placed["moves"].sum() == 1 and placed["moves"][2048] == 1
    assert placed["scattered"].tolist() == pytest.approx([0] * 2048 + [2] * 2048)


def test_placement_is_left_out_where_there_is_nothing_to_choose() -> None:
    arrivals = [Arrival(0.0, JobSpec(steps=1))]
    one = result_of(arrivals, Cluster.parse("2xV100"), [(0, [0], 0, 1)])
    for result, shown in (
        (one, False),
        (replace(one, variability=scored(("A",), [1.0, 2.0])), True),
        (result_of(arrivals, TWO, [(0, [0], 0, 1)]), True),
    ):
        html = page(Comparison({"p": [result]}))
        assert ('id="placement"' in html, 'href="#placement"' in html) == (shown, shown)
        assert "{{" not in html.split("<script")[0]


def test_times_count_from_the_first_submission() -> None:
    late = result_of([Arrival(1e6, JobSpec(steps=10))], TWO, [(0, [1], 1e6 + 5, 1e6 + 15)])
    data = data_of(page(Comparison({"p": [late]})))
    assert data["jobs"]["submitted"].tolist() == [0]
    assert data["runs"][0]["map"]["start"].tolist() == [5]
    assert data["end"] == 15


def test_strangers_stay_text() -> None:
    html = page(Comparison({HOSTILE: [run(trace=HOSTILE, cluster=HOSTILE)], "\ud800 lonely": [run()]}))
    html.encode("utf-8")
    assert html.count("<script") == 2
    assert html.count("</script") == 2
    assert "alert(1)</script>" not in html
    assert "\u2028" not in data_block(html) and "\u2029" not in data_block(html)
    assert not re.search(r"[<>&]", data_block(html))
    assert text_of(html, r"<h1>(.*?)</h1>") == f"2 policies on {HOSTILE}"


def data_block(html: str) -> str:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_policy_allows_the_two_inline_blocks_and_nothing_else() -> None:
    html = page(pair())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', html)
    style, script = re.search(r"<style>(.*?)</style>", html, re.DOTALL), re.search(r"<script>(.*?)</script>", html, re.DOTALL)
    assert policy is not None and style is not None and script is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["style-src"] == f"'{hashed(style[1])}'"
    assert rules["script-src"] == f"'{hashed(script[1])}'"
    assert "unsafe" not in policy[1]
    assert set(re.findall(r"https?://[^\s'\"<]+", html)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\sstyle=|\son\w+=", re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL))


def hashed(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def test_the_scripts_are_all_there_small_and_write_no_markup() -> None:
    folder = resources.files("rota.report").joinpath("web")
    pages = {"page.html", "page.css", "placement.html", "groups.html", "trials.html"}
    pages |= {"paper.html", "paper.css", "sweep.html", "sweep.css"}
    assert {file.name for file in folder.iterdir()} == {*pages, *(f"{name}.js" for name in SCRIPTS)}
    for name in SCRIPTS:
        text = folder.joinpath(f"{name}.js").read_text(encoding="utf-8")
        assert len(text.splitlines()) < 400, name
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(|fetch\(|import\(", text
        ), name


def test_the_same_runs_give_the_same_page_and_no_figure_of_the_machine() -> None:
    assert page(pair()) == page(pair())
    for word in ("simulated_in_seconds", "decision_seconds", "peak_memory_mb"):
        assert word not in page(pair())


@pytest.mark.slow
def test_a_page_with_many_jobs_stays_small() -> None:
    runs = {f"p{seed}": [large_result(20_000, 240, policy="p", seed=seed)] for seed in (1, 2)}
    assert len(page(Comparison(runs))) < 3_000_000


def test_what_makes_no_page() -> None:
    with pytest.raises(OptionError, match="no run to show"):
        page(Comparison({}))
    other = result_of([Arrival(0.0, JobSpec(steps=1))], TWO, [(0, [0], 0, 1)])
    with pytest.raises(OptionError, match="not of the same jobs"):
        page(Comparison({"one": [run()], "two": [other]}))


def test_clusters_may_differ_between_runs() -> None:
    one = result_of([Arrival(0.0, JobSpec(steps=1))], TWO, [(0, [0], 0, 1)])
    two = result_of([Arrival(0.0, JobSpec(steps=1))], Cluster.parse("3xA100"), [(0, [2], 0, 1)])
    data = data_of(page(Comparison({"one": [one], "two": [two], "three": [one]})))
    assert [found["cluster"] for found in data["runs"]] == [0, 1, 0]
    assert [found["gpus"] for found in data["clusters"]] == [2, 3]


def test_a_window_is_told_from_all_jobs() -> None:
    result = run()
    counted = Result(
        type(result.summary)(**{**result.summary.to_dict(), "jobs": 1, "finished": 1}),
        result.params,
        result.record,
        result.arrivals,
        TWO,
        study=result.study,
    )  # type: ignore[arg-type]
    html = page(Comparison({"p": [counted]}))
    assert "Jobs1 of 2" in text_of(html, r'<dl class="facts">(.*?)</dl>')
    assert "All 2 jobs, while the figures count 1." in data_of(html)["about"]


def test_every_input_that_was_set_is_told() -> None:
    study = Study("made", first=20, where={"tenant": "a"}, launch_seconds=7.5, variability_medians=True, gpu_speed=(1.0, 0.5))
    facts = text_of(page(Comparison({"p": [replace(run(), study=study)]})), FACTS)
    for told in ("First20", "Wheretenant=a", "Launch seconds7.5", "Variability mediansyes", "Gpu speed2 values"):
        assert told in facts, told


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("/home/ana/runs/cluster.yaml", "cluster.yaml"),
        ("~/runs/cluster.yaml: 2x(4xA100)", "cluster.yaml: 2x(4xA100)"),
        ("/srv/mine.py:Mine:power=0.5+packed", "mine.py:Mine:power=0.5+packed"),
        ("hierarchical:tenants=/etc/rota/tenants.yaml", "hierarchical:tenants=tenants.yaml"),
        ("one of /a/b.csv or /c/d.csv", "one of b.csv or d.csv"),
        ("tiresias:thresholds=3250/7200", "tiresias:thresholds=3250/7200"),
        ("./mine.py:Mine", "./mine.py:Mine"),
        ("vision/pretraining, pal/vgg19, 12.5 GB/s", "vision/pretraining, pal/vgg19, 12.5 GB/s"),
        ("4 / 8", "4 / 8"),
    ],
)
def test_files_are_named_without_their_folders(said: str, shown: str) -> None:
    assert without_folders(said) == shown


def test_no_page_says_where_its_files_are() -> None:
    cluster = Cluster.of([Node("n", "A100", 1)], "/home/ana/cluster.yaml")
    one = result_of(
        [Arrival(0.0, JobSpec(steps=1))], cluster, [(0, [0], 0, 1)], trace="/home/ana/jobs.csv", notes=["/home/ana/x.csv is odd"]
    )
    html = page(Comparison({"/home/ana/mine.py:Mine": [one], "fifo": [one]}))
    assert "/home/ana" not in html and "mine.py:Mine" in html and "cluster.yaml" in html and "jobs.csv" in html
    # Two policies that would then have the same name keep theirs.
    html = page(Comparison({"/a/mine.py:Mine": [one], "/b/mine.py:Mine": [one]}))
    assert "/a/mine.py:Mine" in html and "/b/mine.py:Mine" in html


def test_tenants_and_users_have_a_section_where_there_are_some() -> None:
    html = page(pair())
    assert 'id="groups"' in html and '<a href="#groups">' in html
    alone = page(Comparison({"p": [result_of([Arrival(0.0, JobSpec(steps=1))], TWO, [(0, [0], 0, 1)])]}))
    assert 'id="groups"' not in alone and '<a href="#groups">' not in alone


def test_without_prices_there_is_no_cost() -> None:
    cluster = Cluster.of([Node("n", "NoSuchType", 1)], "my.yaml")
    html = page(Comparison({"p": [result_of([Arrival(0.0, JobSpec(steps=1))], cluster, [(0, [0], 0, 1)])]}))
    assert ">COST<" not in html and data_of(html)["runs"][0]["cost"] is None
