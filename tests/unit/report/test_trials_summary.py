"""A result's report on trials."""

import json
from dataclasses import replace

import pytest

import rota
from rota.model.cluster import Cluster
from rota.model.job import Arrival, JobSpec
from rota.report.comparison import Comparison
from rota.report.result import Result
from rota.report.trials_summary import PairSummary, TrialsSummary
from rota.report.trials_table import MAX_PAIRS
from rota.traces.trace import Trace
from tests.unit.report.made import result_of
from tests.unit.report.test_results_page import HOSTILE, text_of

PAIR = PairSummary("a", "b", "V100", 2, 3, 0.9, 0.8, 0.7, 0.05)
SUMMARY = TrialsSummary(5, 2, 1, 1, 1, (PAIR,))


def made(trials: TrialsSummary | None, policy: str = "fifo") -> Result:
    arrivals = [Arrival(0.0, JobSpec(name="one", steps=60))]
    return replace(result_of(arrivals, Cluster.parse("1xV100"), [(0, [0], 0.0, 60.0)], policy=policy), trials=trials)


def simulated(tactics: str) -> Result:
    """Two jobs on a GPU, in turns of a minute. Nobody knows how fast they are together: half as fast as alone."""
    jobs = [Arrival(0.0, JobSpec(name=name, steps=20_000.0, profile=name)) for name in ("resnet50", "vgg19")]
    trace = Trace("two", "made", tuple(jobs))
    return rota.simulate(trace, policy="las", cluster="1xV100", decide="rounds", round_seconds=120.0, tactics=tactics)


def test_a_simulation_counts_its_trials_and_lists_its_pairs() -> None:
    result = simulated("pack:settle_seconds=30")
    assert result.trials is not None
    assert (result.trials.trials, result.trials.reverted, result.trials.kept, result.trials.open) == (1, 1, 0, 0)
    (pair,) = result.trials.pairs
    assert (pair.first, pair.second, pair.accelerator, pair.gpus, pair.times) == ("resnet50", "vgg19", "V100", 1, 1)
    assert pair.gain == pytest.approx(0.0) and pair.spread == 0.0
    plain = json.loads(json.dumps(result.to_dict()))["trials"]
    assert plain["reverted"] == 1 and plain["pairs"][0]["first_rate"] == pytest.approx(0.5)
    assert "1 trial: 1 reverted" in str(result)
    assert Comparison({"las": [result]}).to_dict()[0]["trials"] == result.to_dict()["trials"]
    assert len(Comparison({"las": [result, result]}).to_dict()[0]["trials_by_seed"]) == 2


def test_without_tactics_nothing_is_said_of_trials() -> None:
    result = simulated("")
    assert result.trials is None and "trial" not in str(result)
    assert "trials" not in result.to_dict() and 'id="trials"' not in result.page()
    assert "trials" not in Comparison({"las": [result]}).to_dict()[0]


def test_in_words() -> None:
    assert str(SUMMARY) == "5 trials: 2 kept, 1 reverted, 1 aborted, 1 open"
    assert str(TrialsSummary(0, 0, 0, 0, 0, ())) == "0 trials"


def test_the_page_has_a_table_of_trials_and_one_of_pairs() -> None:
    page = Comparison({"one": [made(SUMMARY)], "two": [made(None)]}).page()
    assert 'href="#trials"' in page
    counts = text_of(page, r'<table id="trials-counts">.*?<tbody>(.*?)</tbody>')
    assert counts.strip() == "one52111", "a line for the policy that had tactics"
    pairs = text_of(page, r'<table id="trials-pairs">(.*?)</table>')
    for cell in ("a + b", "2 V100", "90%", "80%", "+70%", "5%"):
        assert cell in pairs


def test_names_in_it_are_text_and_long_lists_are_cut() -> None:
    pairs = tuple(PairSummary(f"{HOSTILE}{{{{pairs}}}}{i}", "b", "V100", 1, 1, 0.5, 0.5, 0.0, 0.0) for i in range(MAX_PAIRS + 3))
    page = made(replace(SUMMARY, pairs=pairs)).page()
    listed = text_of(page, r'<table id="trials-pairs">(.*?)</table>')
    assert listed.count("{{pairs}}") == MAX_PAIRS and f"{HOSTILE}{{{{pairs}}}}0 + b" in listed
    assert "3 more are not listed" in page
    assert "No pair was judged" in made(replace(SUMMARY, pairs=())).page()
