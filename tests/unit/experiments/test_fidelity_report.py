"""The report on real and simulated runs. Real ones are in tests/live/test_live.py, journals in tests/unit/report."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rota.errors import JournalError, OptionError
from rota.experiments.fidelity_report import FidelityReport, PolicyFidelity, _same_ranking, measure_fidelity
from rota.report.fidelity_causes import errors_by_cause
from rota.report.job_time import JobTime

ONE = PolicyFidelity(
    policy="fifo",
    home="a",
    jobs=2,
    jobs_left_out=0,
    mean_error=0.02,
    per_job_p90_error=0.05,
    usual_mean_error=-0.03,
    usual_per_job_p90_error=0.09,
    alone_mean_error=-0.21,
    alone_per_job_p90_error=0.21,
    simulated_mean_jct_seconds=10.2,
    real_mean_jct_seconds=10.0,
    launch_seconds=0.1,
    suspend_seconds=0.0,
    leave_seconds=0.0,
    answer_seconds=0.0,
    launching_seconds=0.1,
    switching_seconds=0.0,
    leaving_seconds=0.0,
    interference_seconds=0.0,
    rate_spread=0.0,
    other_order=0.25,
    usual_other_order=0.5,
    chance_mean_error=0.01,
    chance_per_job_p90_error=0.07,
    causes=errors_by_cause(
        [JobTime(waiting=4.0, starting=1.0, training=5.0)],
        [JobTime(waiting=4.1, starting=1.1, training=5.0)],
        [JobTime(waiting=3.5, starting=1.2, training=5.0)],
        [JobTime(waiting=3.0, starting=0.9, training=4.0)],
    ),
)


def test_policies_are_ranked_only_if_they_really_differ() -> None:
    slower = replace(ONE, real_mean_jct_seconds=12.0, simulated_mean_jct_seconds=11.5)
    assert _same_ranking([ONE]) is None
    assert _same_ranking([ONE, replace(ONE, real_mean_jct_seconds=10.05, simulated_mean_jct_seconds=9.0)]) is None
    assert _same_ranking([ONE, slower]) is True
    assert _same_ranking([slower, ONE]) is True
    assert _same_ranking([ONE, slower, replace(slower, simulated_mean_jct_seconds=9.0, real_mean_jct_seconds=20.0)]) is False


def test_a_report_has_the_names_of_the_contract() -> None:
    whole = FidelityReport((ONE,), None).to_dict()
    wanted = {"policy", "mean_error", "per_job_p90_error", "simulated_mean_jct_seconds", "real_mean_jct_seconds"}
    assert set(whole) == {"policies", "same_ranking"} and wanted <= set(whole["policies"][0])
    assert json.loads(json.dumps(whole)) == json.loads(json.dumps(FidelityReport((ONE,), None).to_dict()))
    (row,) = whole["policies"]
    assert [each["cause"] for each in row["causes"]] == ["starting", "switching", "interference", "order", "other"]
    assert sum(each["error"] for each in row["causes"]) == pytest.approx(row["mean_error"])
    text = str(FidelityReport((ONE, replace(ONE, policy="las")), True))
    assert "+2.0%" in text and "ranks the policies as they really were" in text


def test_the_error_is_printed_by_cause() -> None:
    lines = str(FidelityReport((ONE,), None)).splitlines()
    shown = [line.split() for line in lines if line.startswith("fifo  ")]
    assert ["fifo", "starting", "1.00s", "1.10s", "+1.0%", "1.0%", "+2.0%", "2.0%", "-1.0%", "1.0%"] in shown
    assert ["fifo", "order", "4.00s", "4.10s", "+1.0%", "1.0%", "-5.0%", "5.0%", "-10.0%", "10.0%"] in shown
    assert any("25.0% of all pairs of jobs end in another order, 50.0% with averages." in line for line in lines)


def test_a_row_of_a_table_has_no_lists() -> None:
    row = ONE.row()
    assert row["order_error"] == pytest.approx(0.01) and row["starting_usual_per_job_error"] == pytest.approx(0.02)
    assert "causes" not in row and all(isinstance(each, str | int | float) for each in row.values())


@pytest.mark.slow
def test_homes_without_a_run_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="names no home"):
        measure_fidelity([])
    with pytest.raises(JournalError, match="no scheduler has run here"):
        measure_fidelity([tmp_path])
    found = subprocess.run([sys.executable, "-m", "rota", "fidelity", str(tmp_path)], capture_output=True, text=True)
    assert found.returncode != 0 and "no scheduler has run here" in found.stderr and "--home" in found.stderr
