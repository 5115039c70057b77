"""The page of a sweep: the x axis, the lines, and the separate charts."""

import re
from pathlib import Path
from typing import Any

from rota.experiments.sweep_page import METRICS, SweepChart, sweep_page
from rota.experiments.sweep_result import SweepResult

HOSTILE = "<img src=x onerror=alert(1)>"


def row(axes: dict[str, Any], seed: int = 0, jct: float = 3600.0) -> dict[str, Any]:
    summary = {"mean_jct_seconds": jct, "mean_queueing_seconds": jct / 2, "finish_time_fairness_p95": 1.5, "suspensions": 3}
    summary |= dict.fromkeys(("gap_to_jct_bound", "median_jct_seconds", "p99_jct_seconds", "makespan_seconds"), 1.0)
    summary |= {"utilization": 0.5, "offered_load": 0.8}
    return {"key": "k", "axes": axes, "params": {"seed": seed, "notes": []}, "summary": summary}


def swept(rows: list[dict[str, Any]]) -> SweepResult:
    return SweepResult(Path("out"), rows, [], 0)


def loads(policies: tuple[str, ...] = ("fifo", "srsf"), seeds: int = 2, **more: Any) -> SweepResult:
    return swept(
        [
            row({"policy": policy, "trace": "t", "cluster": "c", **more, "trace.load": load}, seed, 1000 * load + 50 * seed)
            for policy in policies
            for load in (0.9, 0.5, 0.7)
            for seed in range(seeds)
        ]
    )


def test_a_line_for_each_policy_over_what_was_varied_with_intervals() -> None:
    found = loads()
    drawing = SweepChart.of(found.points())
    assert (drawing.over, drawing.lines, drawing.panels) == ("trace.load", ("policy",), ())
    assert drawing.values == [0.5, 0.7, 0.9], "numbers in order"
    page = sweep_page(found)
    assert page.count("<figure") == len(METRICS)
    first = page[page.index("<figure") : page.index("</figure>")]
    assert first.count('class="interval"') == 6 and first.count("<circle") == 6
    assert first.count("stroke-linejoin=") == 2, "a line for each policy"
    assert "Mean JCT over trace.load" in first and "Mean JCT, minutes" in first


def test_one_seed_has_no_intervals() -> None:
    assert 'class="interval"' not in sweep_page(loads(seeds=1))


def test_a_policy_that_a_value_does_not_concern_is_a_level_line() -> None:
    rows = [row({"policy": "fifo", "trace": "t", "cluster": "c", "policy.promote": None})]
    rows += [row({"policy": "tiresias", "trace": "t", "cluster": "c", "policy.promote": value}) for value in (0, 8)]
    page = sweep_page(swept(rows))
    assert "at any value" in page and page.count("<circle") == 2 * len(METRICS)


def test_names_stand_side_by_side_and_no_line_joins_them() -> None:
    rows = [row({"policy": "fifo", "trace": "t", "cluster": cluster}) for cluster in ("8xV100", "8xK80")]
    page = sweep_page(swept(rows))
    assert "8xV100" in page and page.count("<circle") == 2 * len(METRICS)
    assert "stroke-linejoin=" not in page, "no line joins them"


def test_policies_alone_stand_side_by_side() -> None:
    rows = [row({"policy": policy, "trace": "t", "cluster": "c"}) for policy in ("fifo", "srsf")]
    assert SweepChart.of(swept(rows).points()).over == "policy"
    assert "has the lowest mean JCT" in sweep_page(swept(rows))


def test_further_values_have_charts_of_their_own() -> None:
    rows = [each for cluster in ("a", "b", "c") for each in loads(seeds=1, preset=cluster).rows]
    page = sweep_page(swept(rows))
    assert page.count("<figure") == 3 * len(METRICS) and "preset b" in page


def test_it_loads_nothing_runs_nothing_and_names_are_only_text() -> None:
    page = sweep_page(loads(policies=(HOSTILE,)))
    assert HOSTILE not in page and "<script" not in page
    assert "script-src" not in page and "default-src 'none'" in page
    assert not re.findall(r"(?:src|href)=\"(?!#|data:)", page)


def test_the_same_sweep_gives_the_same_bytes() -> None:
    assert sweep_page(loads()) == sweep_page(loads())
