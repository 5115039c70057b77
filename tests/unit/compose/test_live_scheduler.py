"""Settings in a journal: a scheduler is replayed with the settings that it had."""

import json
from typing import Any

import pytest

from rota.compose.live_scheduler import make_scheduler, plain_settings, plain_setup, read_setup
from rota.compose.parse_tactics import make_tactics
from rota.core.decision_timing import AtEvents, AtRounds, WholeSteps
from rota.core.selection import SelectionRules
from rota.core.settings import Settings
from rota.errors import JournalError


def plain(settings: Any) -> dict[str, Any]:
    return {"policy": "fifo", "placer": "packed", "cluster": "4xV100", "pretend": True, "settings": settings}


@pytest.mark.parametrize(
    "settings",
    [
        Settings(policy="fifo"),
        Settings(policy="fifo", decide=AtEvents(slice_seconds=20.0), lease_seconds=300.0, learn_variability=True),
        Settings(policy="fifo", tactics=make_tactics("pack:min_gain=0.1,settle_seconds=2")),
        Settings(policy="fifo", decide=AtRounds(round_seconds=45.0, at_events=True), seed=3),
        Settings(
            policy="fifo",
            decide=WholeSteps(round_seconds=360.0, solve_every_seconds=1920.0),
            selection=SelectionRules(steady=True),
        ),
    ],
)
def test_a_scheduler_is_made_as_its_journal_says(settings: Settings) -> None:
    written = json.dumps(plain(plain_settings(settings)), allow_nan=False)
    setup = read_setup(json.loads(written))
    assert make_scheduler(setup).settings == settings
    assert read_setup(json.loads(json.dumps(plain_setup(setup), allow_nan=False))) == setup


def test_settings_that_are_not_known_are_refused_by_name() -> None:
    with pytest.raises(JournalError, match=r"round_seconds \(60\.0\).*does not know") as error:
        read_setup(plain({"lease_seconds": 300.0, "round_seconds": 60.0, "at_events": True}))
    assert "the Rota that wrote" in (error.value.hint or "")


def test_a_setup_of_an_earlier_version_kept_flags_under_other_names() -> None:
    now = {"given": {"learn_variability": {"text": True}, "tensors": {"text": "t.csv", "value": {"net": 0.5}}}}
    before = {"told": {"variability_learned": {"said": True}, "tensors": {"said": "t.csv", "value": {"net": 0.5}}}}
    common = plain(plain_settings(Settings(policy="fifo")))
    assert read_setup({**common, **before}) == read_setup({**common, **now}) != read_setup(common)
    assert plain_setup(read_setup({**common, **before}))["given"] == now["given"]
