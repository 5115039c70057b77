"""Options that do nothing in this combination say so: all of them, each in a combination in which it does nothing."""

from pathlib import Path
from typing import Any

import pytest

import rota
from rota.beliefs.move_costs import LINK_SPEED
from rota.beliefs.rates import Rates
from rota.compose.study import study_fields
from rota.errors import OptionError, TraceError
from rota.model.job import Arrival
from rota.traces.trace import Trace
from tests.unit.cli.test_bad_input import rota as command

SMALL = "synthetic:jobs=12,gpus=8,largest=1,longest_seconds=5000"
WIDE = "synthetic:jobs=12,gpus=8,largest=8,longest_seconds=5000"
ONE_NODE, NODES = "1x(8xV100)", "4x(4xV100)"
SCORES = "gpu,class,score\n" + "".join(f"{gpu},A,{1.2 if gpu else 1.0}\n" for gpu in range(8))

MATTERS = {
    "trace": "it is what is simulated",
    "policy": "it always decides; its own options are below",
    "cluster": "it is what is simulated",
    "placer": "it always chooses GPUs; those that need scores are below",
    "preset": "it sets what nothing else does",
    "known_rates": "refused without rates to hide, below; otherwise estimates replace measurements",
    "decide": "what is asked for happens, even where it would anyway",
    "launch_seconds": "every job is launched",
    "seed": "it names the draw, whether anything is drawn or not",
    "completion_poll_seconds": "0 is how it is switched off",
}
"""Fields that do something in every combination, and why."""

IDLE: dict[str, tuple[dict[str, Any], str]] = {
    "first": ({"first": 500}, "--first 500 does nothing: there are 12 jobs"),
    "elastic": ({"elastic": "none"}, "--elastic none does nothing: no job here accepts another size"),
    "window": ({"window": (0, 12)}, "--window 0:12 does nothing: it counts every job"),
    "drop_oversized": ({"drop_oversized": True}, "--drop-oversized does nothing: every job fits"),
    "round_seconds": ({"round_seconds": 60, "decide": "events"}, "--round-seconds does nothing with --decide events"),
    "checkpoint_seconds": ({"checkpoint_seconds": 9}, "--checkpoint-seconds did nothing under fifo: no job was suspended"),
    "restore_seconds": ({"restore_seconds": 9}, "--restore-seconds did nothing under fifo: no job was suspended"),
    "resize_seconds": ({"resize_seconds": 9}, "--resize-seconds does nothing: no job here changes its size while it runs"),
    "checkpoint_every_seconds": ({"checkpoint_every_seconds": 600}, "--checkpoint-every-seconds does nothing: no node fails"),
    "node_repair_seconds": ({"node_repair_seconds": 600}, "--node-repair-seconds does nothing: no node fails"),
    "node_mtbf_seconds": ({"node_mtbf_seconds": 1e15}, "--node-mtbf-seconds did nothing: no node failed"),
    "spread_penalty": ({"spread_penalty": 1.7}, "--spread-penalty does nothing: no job can have GPUs of several nodes"),
    "min_run_factor": (
        {"min_run_factor": 10.0, "preset": "ideal"},
        "--min-run-factor does nothing: starting and stopping a job costs nothing",
    ),
    "wait_for_locality": ({"wait_for_locality": True}, "--wait-for-locality does nothing: no job can have GPUs of several nodes"),
    "tensors": ({"tensors": "skews.csv"}, "--tensors does nothing: this placer does not look at the skew"),
    "profile": ({"profile": "rates.csv"}, "--profile does nothing: no job has a profile of rates.csv"),
    "rates": (
        {"profile": "rates.csv", "rates": Rates({("a", "V100", 1): 1.0})},
        "the measurements in `rates` do nothing: --profile replaces them",
    ),
    "variability": ({"variability": "same.csv"}, "--variability does nothing: all GPUs have the same score"),
    "variability_medians": (
        {"variability": "scores.csv", "variability_medians": True},
        "--variability-medians does nothing: the file has scores, not runs",
    ),
    "cordon_slower_than": (
        {"variability": "scores.csv", "cordon_slower_than": 3.0},
        "--cordon-slower-than 3 does nothing: the slowest GPU takes 1.2 times as long",
    ),
    "park": ({"park": "link"}, "--park did nothing under fifo: no job was suspended"),
    "measurement_noise": ({"measurement_noise": 0.1}, "--measurement-noise does nothing: without --tactics nothing is measured"),
    "tactics": ({"tactics": "grow"}, "the tactic grow does nothing: no job here accepts more GPUs"),
    "tenants": ({"tenants": "tenants.yaml"}, "--tenants does nothing: no job here has a tenant"),
    "memory": ({"memory": LINK_SPEED}, "memory does nothing: the GPU memory of every job is unknown"),
    "gpu_speed": ({"gpu_speed": [1.0] * 8}, "gpu_speed does nothing: every GPU has its nominal speed"),
    "whole_steps_seconds": ({"whole_steps_seconds": 60.0}, "whole_steps_seconds does nothing"),
}
"""Field -> a combination in which it does nothing, and what the result says."""

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "format": ({"format": "gavel"}, "is generated, not read"),
    "where": ({"where": {"a": "b"}}, "has no columns to filter by"),
    "variability_medians": ({"variability_medians": True}, "does nothing: without --variability"),
    "learn_variability": ({"learn_variability": True}, "does nothing: without --variability"),
    "cordon_slower_than": ({"cordon_slower_than": 1.5}, "does nothing: without --variability"),
    "known_rates": ({"known_rates": 0.5}, "needs measured rates"),
}
"""Field -> a combination in which it is refused, because it can only be a mistake."""

POLICIES = {
    "fifo:type_aware=false": "type_aware=false does nothing: the cluster has one accelerator type",
    "max-min-fairness:colocation=true": "colocation=true does nothing: no rates of pairs are known",
    "hierarchical:tenants=tenants.yaml": "tenants=... does nothing: no job here has a tenant",
    "min-cost:slo=true": "slo=true does nothing: no job here has a deadline",
}
"""Policies with an option that does nothing here."""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "skews.csv").write_text("profile,parameters,largest_name,largest,skew\nmine,100,w,50,0.5\n")
    (tmp_path / "rates.csv").write_text("profile,accelerator,gpus,steps_per_second\nmine,V100,1,10\n")
    (tmp_path / "scores.csv").write_text(SCORES)
    (tmp_path / "same.csv").write_text(SCORES.replace("1.2", "1.0"))
    (tmp_path / "tenants.yaml").write_text("vision: {weight: 2}\nspeech: {weight: 1}\n")
    monkeypatch.chdir(tmp_path)


def test_every_field_of_a_study_is_one_of_these() -> None:
    assert set(MATTERS) | set(IDLE) | set(REFUSED) == set(study_fields()), "a new field says when it does nothing"


@pytest.mark.parametrize("name", IDLE)
def test_an_option_that_does_nothing_says_so(name: str) -> None:
    fields, note = IDLE[name]
    said = rota.simulate(SMALL, **{"cluster": ONE_NODE, **fields}).notes
    assert [each for each in said if each.startswith(note)], said
    assert not [each for each in rota.simulate(SMALL, cluster=ONE_NODE).notes if each.startswith(note)]


@pytest.mark.parametrize("name", REFUSED)
def test_an_option_that_can_only_be_a_mistake_is_refused(name: str) -> None:
    fields, words = REFUSED[name]
    with pytest.raises((OptionError, TraceError), match=words):
        rota.simulate(SMALL, cluster=ONE_NODE, **fields)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_option_of_a_policy_that_does_nothing_says_so(policy: str) -> None:
    said = rota.simulate(SMALL, policy=policy, cluster=ONE_NODE).notes
    assert [each for each in said if each.startswith(POLICIES[policy])], said


@pytest.mark.parametrize(
    "fields",
    [
        {"first": 5},
        {"window": (2, 8)},
        {"round_seconds": 60},
        {"policy": "las", "checkpoint_seconds": 9, "restore_seconds": 9, "cluster": "2x(4xV100)"},
        {"checkpoint_every_seconds": 600, "node_repair_seconds": 600, "node_mtbf_seconds": 3000.0},
        {"spread_penalty": 1.7, "wait_for_locality": True},
        {"placer": "skew", "tensors": "skews.csv"},
        {"policy": "fifo:type_aware=false", "cluster": "4x(4xV100) + 4x(4xK80)"},
        {"spread_penalty": "1.2/1.1", "cluster": "2x(2x(4xV100))"},
    ],
    ids=lambda fields: "+".join(fields),
)
def test_an_option_that_does_something_is_not_told_of(fields: dict[str, Any]) -> None:
    assert rota.simulate(WIDE, **{"cluster": NODES, **fields}).notes == []


def test_a_penalty_for_levels_that_are_not_there() -> None:
    (note,) = rota.simulate(WIDE, cluster=NODES, spread_penalty="1.2/1.1").notes
    assert note == "--spread-penalty has more factors than the cluster has levels (nodes only): the last do nothing"


def test_a_placer_that_keeps_no_job_together_makes_nobody_wait() -> None:
    (note,) = rota.simulate(WIDE, cluster=NODES, placer="random", wait_for_locality=True).notes
    assert note == "--wait-for-locality does nothing: this placer does not keep jobs together"


def test_a_trace_made_in_python_has_no_format_and_no_columns() -> None:
    made = Trace.of("mine", "test", [Arrival(0.0, rota.JobSpec(steps=10))])
    for fields in ({"format": "gavel"}, {"where": {"cluster": "a"}}):
        with pytest.raises(OptionError, match="does nothing: the trace is not read from a file"):
            rota.simulate(made, cluster="1xV100", **fields)


@pytest.mark.slow
def test_flags_of_the_output_that_do_nothing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, err = command(capsys, monkeypatch, "sim", "--trace", SMALL, "--per-job")
    assert "note: --per-job does nothing with -o table" in err
    _, _, err = command(capsys, monkeypatch, "sweep", "fifo", "--trace", SMALL, "-o", "wide", "--out", "o")
    assert "note: -o wide shows what -o table does" in err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("round_seconds", 1e-9),
        ("round_seconds", 1e18),
        ("launch_seconds", 1e18),
        ("checkpoint_seconds", 1e9),
        ("restore_seconds", 1e17),
        ("restore_seconds", -1.0),
        ("checkpoint_every_seconds", 1e-12),
        ("node_mtbf_seconds", 1e-9),
        ("node_mtbf_seconds", (1e6, 1e-9)),
        ("node_repair_seconds", 1e300),
        ("spread_penalty", 1e30),
        ("spread_penalty", "1.2, vgg19=1e30"),
        ("cordon_slower_than", 1e30),
        ("whole_steps_seconds", 1e18),
        ("min_run_factor", -1.0),
        ("completion_poll_seconds", 1e18),
        ("seed", 10**23),
        ("seed", -1),
        ("first", 0),
        ("first", 10**20),
        ("launch_seconds", float("nan")),
        ("round_seconds", float("inf")),
    ],
)
def test_absurd_settings_are_refused_with_their_range(name: str, value: Any) -> None:
    with pytest.raises(OptionError, match=f"{name}: .* — must be from ") as told:
        rota.simulate(SMALL, cluster=ONE_NODE, **{name: value})
    assert told.value.hint.startswith(f"--{name.replace('_', '-')} ")


def test_absurd_settings_are_refused_by_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (("--round-seconds", "1e-9"), ("--launch-seconds", "1e18")):
        code, _, err = command(capsys, monkeypatch, "sim", "--trace", "demo", *words)
        assert code == 2 and "must be from" in err and "Try: --" in err and "times are in seconds" in err
