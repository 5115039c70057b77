"""The flags shared by `rota up` and `rota sim` that a home remembers."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rota.compose.live_fields import REMEMBERED_FIELDS
from rota.compose.live_scheduler import JOURNAL_CODEC, make_home_setup, plain_flags, read_kept_flags
from rota.compose.prepare_live import describe_given_changes, forgettable, merge_given, read_flags
from rota.core.decision_timing import AtEvents, AtRounds, DecisionTiming
from rota.core.settings import Settings
from rota.errors import InputError, OptionError, UnknownNameError
from rota.live.given_beliefs import GivenFlag, GivenFlags, given_beliefs
from rota.model.cluster import Cluster
from tests.unit.profiles.test_scaling import TRUTH, write_pollux

CLUSTER = Cluster.parse("2xV100 + 1xK80")
NAMES = ["V100:0", "V100:1", "K80:0"]
HEADER = "profile,accelerator,gpus,steps_per_second\n"


def told(**given: Any) -> GivenFlags:
    found = plain_flags(read_flags(given, CLUSTER, NAMES).given)
    return read_kept_flags(json.loads(json.dumps(found, allow_nan=False)))  # as a journal gives them back


def given_decision_timing(flags: GivenFlags) -> DecisionTiming:
    return make_home_setup("fifo", "packed", Settings(), flags, CLUSTER, pretend=True).settings.decide


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("rates.csv").write_text(HEADER + "net,V100,1,4\nnet,K80,1,9\n")
    Path("tensors.csv").write_text("profile,parameters,largest_name,largest,skew\nnet,100,w,90,0.9\n")
    Path("scores.csv").write_text("gpu,class,score\n0,A,1.2\n2,A,1.4\n")
    return tmp_path


def test_what_files_say_is_kept_and_the_files_are_not_needed_again(files: Path) -> None:
    kept = told(
        profile="rates.csv", tensors="tensors.csv", variability="scores.csv", spread_penalty="net=1.7/1.2", resize_seconds=2.0
    )
    for name in ("rates.csv", "tensors.csv", "scores.csv"):
        (files / name).unlink()
    found = given_beliefs(kept, 0.0, NAMES)
    assert found.rates.rate("net", "K80", 1) == (9.0, 0.0) and found.rates.knows("resnet50"), "the rest is in the catalogue"
    assert found.rates.rate("net", "V100", 1, 2)[0] == pytest.approx(4 / 1.7 / 1.2)
    assert found.skews.of("net") == 0.9 and found.costs.resize_seconds == 2.0
    assert found.scores is not None and found.scores.scores.tolist() == [[1.2, 1.0, 1.4]]
    assert kept["profile"].text == str(files / "rates.csv"), "a start from another folder tells the same"


def test_a_folder_of_step_times_is_kept_as_the_model_that_fits_it(files: Path) -> None:
    kept = told(profile=str(write_pollux(files / "profiles")))
    shutil.rmtree(files / "profiles")
    found = given_beliefs(kept, 0.0, NAMES).rates
    assert found.rate("cifar10/global128", "T4", 4)[0] == pytest.approx(1 / TRUTH.seconds(4, 128, False), rel=0.05)
    assert found.knows("resnet50"), "the rest is in the catalogue"
    assert found.efficiency.progress("cifar10", 4096) < 4096, "a larger batch is no free progress for a live scheduler either"
    assert len(json.dumps(plain_flags(kept))) < 3000


def test_nothing_told_is_the_catalogue() -> None:
    found = given_beliefs({}, 0.0, NAMES)
    assert found == given_beliefs({}, 0.0, []) and found.scores is None
    assert found.rates.knows("resnet50") and found.costs.move_seconds == 1.0


def test_what_is_given_replaces_what_was_told_and_the_rest_stays(files: Path) -> None:
    before = told(profile="rates.csv", round_seconds=60.0, variability="scores.csv")
    (files / "rates.csv").write_text(HEADER + "net,V100,1,8\n")
    now = merge_given(before, told(profile="rates.csv", wait_for_locality=True), forgettable(["--round-seconds"]))
    assert sorted(now) == ["profile", "variability", "wait_for_locality"]
    assert describe_given_changes(before, now) == [
        f"as before: --variability {files / 'scores.csv'}",
        "no longer: --round-seconds 60",
        "new: --wait-for-locality",
        f"changed: --profile {files / 'rates.csv'}, whose contents have changed",
    ]
    assert describe_given_changes(now, merge_given(now, {"profile": GivenFlag("b", {})})) == [
        f"as before: --wait-for-locality, --variability {files / 'scores.csv'}",
        f"changed: --profile b, before {files / 'rates.csv'}",
    ]
    assert merge_given(now, {}, forgettable(["all"])) == {} and describe_given_changes({}, {}) == []


def test_tactics_are_kept_replaced_and_forgotten() -> None:
    before = told(tactics="pack:settle_seconds=2")
    assert merge_given(before, told(round_seconds=60.0))["tactics"] == GivenFlag("pack:settle_seconds=2")
    now = merge_given(before, told(tactics="pack"))
    assert describe_given_changes(before, now) == ["changed: --tactics pack, before pack:settle_seconds=2"]
    assert merge_given(now, {}, forgettable(["--tactics"])) == {}
    with pytest.raises(UnknownNameError, match="No tactic 'park'"):
        told(tactics="park")


def test_medians_belong_to_the_file_of_runs(files: Path) -> None:
    Path("runs.csv").write_text("uuid,perf\n" + "".join(f"g{i},{1 + i / 10}\n" for i in range(4)))
    before = told(variability="runs.csv", variability_medians=True)
    assert before["variability_medians"] == GivenFlag(True)
    assert "variability_medians" not in merge_given(before, told(variability="scores.csv"))
    assert merge_given(before, {}, ("variability",)) == {}
    with pytest.raises(OptionError, match="does nothing"):
        told(variability_medians=True)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, AtEvents()),
        ({"round_seconds": 60.0}, AtRounds(round_seconds=60.0)),
        ({"round_seconds": 60.0, "decide": "both"}, AtRounds(round_seconds=60.0, at_events=True)),
        ({"round_seconds": 60.0, "decide": "events"}, AtEvents()),
    ],
)
def test_when_it_decides(given: dict[str, Any], expected: object) -> None:
    assert given_decision_timing(told(**given)) == expected


def test_a_length_that_was_told_before_serves_for_rounds() -> None:
    assert given_decision_timing(merge_given(told(round_seconds=60.0), told(decide="rounds"))) == AtRounds(round_seconds=60.0)
    with pytest.raises(OptionError, match="rounds need a length"):
        given_decision_timing(told(decide="rounds"))


@pytest.mark.parametrize(
    ("names", "found"),
    [([], ()), (["profile", "--wait-for-locality"], ("profile", "wait_for_locality")), (["all"], REMEMBERED_FIELDS)],
)
def test_what_can_be_forgotten(names: list[str], found: tuple[str, ...]) -> None:
    assert forgettable(names) == found


def test_what_is_not_kept_cannot_be_forgotten_and_what_is_simulated_cannot_be_told() -> None:
    for name in ("policy", "trace", ""):
        with pytest.raises(OptionError, match="keeps no such flag"):
            forgettable([name])
    with pytest.raises(UnknownNameError):
        told(trace="demo")
    with pytest.raises(InputError):
        told(profile="nowhere.csv")


def test_tenants_are_kept_with_the_setup_and_the_file_is_not_needed_again(files: Path) -> None:
    Path("tenants.yaml").write_text("tenants: {vision: {guarantee: 2, cap: 3}}\nfairness: decay\n")
    kept = told(tenants="tenants.yaml")
    Path("tenants.yaml").unlink()
    setup = make_home_setup("fifo", "packed", Settings(), kept, CLUSTER, pretend=True)
    assert setup.tenants is not None and setup.tenants.caps == {"vision": 3.0} and setup.tenants.fairness == "decay"
    again = JOURNAL_CODEC.decode(json.loads(json.dumps(JOURNAL_CODEC.encode(setup))))
    assert again.tenants == setup.tenants
    assert make_home_setup("fifo", "packed", Settings(), {}, CLUSTER, pretend=True).tenants is None
    assert forgettable(["--tenants"]) == ("tenants",)
    Path("more.yaml").write_text("tenants: {vision: {guarantee: 9}}\n")
    with pytest.raises(OptionError, match="add up to 9 GPUs"):
        told(tenants="more.yaml")
