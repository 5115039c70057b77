"""Gavel's generator against jobs that Gavel itself drew, to the last digit."""

import json
from pathlib import Path
from typing import Any

import pytest

from rota.profiles.gavel_rates import read_rates
from rota.traces.gavel_jobs import gavel_jobs
from tests.shared import SHARED, needs_shared

TRACES = SHARED / "expected" / "gavel" / "traces"
PROFILE = SHARED / "data" / "gavel" / "simulation_throughputs.json"


def stored(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((TRACES / f"{name}.jobs.json").read_text())
    return found


@needs_shared
@pytest.mark.parametrize("name", ["single_s2_l3600_n120", "multi_s0_l7200_n150", "slo_s4_l2700_n120"])
def test_the_same_seed_gives_the_same_jobs(name: str) -> None:
    known = stored(name)
    trace = gavel_jobs(
        known["n"],
        known["seed"],
        mean_gap_seconds=known["lam"],
        multi=known["multi_gpu"],
        priorities=known["multi_priority"],
        slo=known["slo"],
        rates=read_rates(PROFILE),
    )
    assert len(trace) == known["n"] == len(known["jobs"])
    for (submitted_s, spec), job in zip(trace.arrivals, known["jobs"], strict=True):
        assert submitted_s == pytest.approx(job["arrival_time"], rel=1e-12)
        assert (spec.profile, spec.gpus, spec.weight) == (job["job_type"], job["scale_factor"], job["priority_weight"])
        assert spec.steps == job["total_steps_float"]
        if known["slo"]:
            assert spec.deadline_seconds == pytest.approx(job["SLO"] * job["duration"], rel=1e-12)
        else:
            assert spec.deadline_seconds is None


@needs_shared
def test_a_profile_named_in_the_settings_is_read(tmp_path: Path) -> None:
    known = stored("single_s2_l3600_n120")
    trace = gavel_jobs(5, 2, mean_gap_seconds=3600, profile=str(PROFILE))
    assert [arrival.spec.steps for arrival in trace.arrivals] == [job["total_steps_float"] for job in known["jobs"][:5]]
