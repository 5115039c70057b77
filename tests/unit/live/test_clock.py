"""The clock of a scheduler when the time of the machine is set."""

import time
from pathlib import Path

import pytest

from rota.live.clock import Clock, ClockOrigin
from rota.live.journal import Journal
from rota.server.serve import JOURNAL_CODEC

DAY = 86_400.0


def jump(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The wall clock of this process."""
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + seconds)


@pytest.mark.parametrize("seconds", [DAY, -DAY])
def test_it_does_not_jump(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    clock, before = Clock(), time.time()
    jump(monkeypatch, seconds)
    assert abs(clock() - before) < DAY / 2
    assert abs(Clock(origin=clock.origin)() - before) < DAY / 2, "nor does one that goes on from it"
    assert abs(Clock()() - before - seconds) < DAY / 2, "one that is set anew does"
    other_boot = clock.origin._replace(boot="another")
    assert abs(Clock(origin=other_boot)() - before - seconds) < DAY / 2, "and so does one after a boot"


def test_it_is_never_before_what_was_recorded() -> None:
    later = time.time() + DAY
    assert Clock(later)() >= later and Clock(later, Clock().origin)() >= later


def test_a_journal_keeps_where_it_stands(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.sqlite", JOURNAL_CODEC)
    assert journal.clock_origin() is None
    for origin in (ClockOrigin("one", 0.1), ClockOrigin("another", 1_790_000_000.123456)):
        journal.keep_clock(origin)
        assert journal.clock_origin() == origin
    journal.close()
