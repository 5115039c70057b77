"""Another policy while the daemon runs, with real worker processes and real jobs."""

from pathlib import Path

import pytest

from rota.compose.live_scheduler import JOURNAL_CODEC, plain_setup, read_setup
from rota.core.fold.configured import Configured
from rota.errors import OptionError
from rota.live.journal import Journal
from tests.live.scheduler.test_cluster_changes import check_record, until_phase
from tests.live.scheduler.test_daemon import configuration, ended, running, submit

POLICIES = """
import time

import rota


class Broken:
    def allocate(self, view):
        raise ZeroDivisionError("always")


class Odd:
    def allocate(self, view):
        return rota.Ranking(order=[99], option=[0])


class Dies:
    def allocate(self, view):
        import os
        os._exit(3)


class Sleeps:
    def allocate(self, view):
        if len(view.jobs.weight) > 1:
            time.sleep(3600)
        return rota.Ranking.by(view.jobs.weight)
"""


def test_another_policy_takes_over_at_once_and_stays_after_a_restart(tmp_path: Path) -> None:
    said: list[str] = []
    with running(tmp_path, cluster="1xV100", tell=said.append) as daemon:
        first = submit(daemon, ["sleep", "300"], name="first", preemptible=True)
        until_phase(daemon, first, "running")
        second = submit(daemon, "sleep 0.2; true", name="second")
        assert daemon.why(second).policy == "fifo" and daemon.job("second").phase == "queued"
        status = daemon.set_policy("srsf")
        assert (status.policy, status.placer) == ("srsf", "packed")
        third = submit(daemon, "true", steps=1, name="third")
        assert ended(daemon, third).phase == "finished", "the shortest goes first now"
        assert said == ["policy srsf takes over from fifo"]
        state = daemon.scheduler.state
        assert state.cycle.answer is not None and state.cycle.answer.policy == "srsf"
        assert daemon.set_policy("fifo+spread").placer == "spread"
        assert daemon.set_policy("las").placer == "spread", "the placer stays"
    check_record(tmp_path)
    said.clear()
    with running(tmp_path, cluster="1xV100", policy="fifo", tell=said.append) as daemon:
        for job in (first, second):
            daemon.cancel(job)
            ended(daemon, job)
    assert said == ["policy fifo takes over from las"]
    check_record(tmp_path)


def test_a_setup_for_which_no_entry_was_written_does_not_count(tmp_path: Path) -> None:
    """A scheduler of an earlier version died after it had written its setup, and before its first entry."""
    with running(tmp_path, cluster="1xV100") as daemon:
        ended(daemon, submit(daemon, "true"))
    journal = Journal(tmp_path / "journal.sqlite", JOURNAL_CODEC)
    journal.configure(plain_setup(read_setup(configuration("1xV100", "las"))))
    journal.close()
    with running(tmp_path, cluster="1xV100") as daemon:
        ended(daemon, submit(daemon, "true"))
        assert daemon.scheduler.settings.policy == "fifo"
    check_record(tmp_path)
    journal = Journal(tmp_path / "journal.sqlite", JOURNAL_CODEC)
    assert {
        each.setup.settings.policy for entry in journal.entries() for each in entry.events if isinstance(each, Configured)
    } == {"fifo"}
    journal.close()


@pytest.mark.parametrize("jobs", [0, 2])
@pytest.mark.parametrize(
    ("named", "words"),
    [
        ("Broken", "first answer failed: ZeroDivisionError: always"),
        ("Odd", "its first answer failed"),
        ("Dies", "worker died"),
    ],
)
def test_a_policy_whose_first_answer_fails_is_refused(tmp_path: Path, named: str, words: str, jobs: int) -> None:
    file = tmp_path / "policies.py"
    file.write_text(POLICIES)
    (tmp_path / "home").mkdir()
    with running(tmp_path / "home", cluster="1xV100") as daemon:
        for _ in range(jobs):
            submit(daemon, "sleep 1")
        with pytest.raises(OptionError, match=words):
            daemon.set_policy(f"{file}:{named}")
        assert daemon.status().policy == "fifo" and not daemon.status().policy_error
        assert ended(daemon, submit(daemon, "true")).phase == "finished", "the one in force goes on"
        assert (setup := daemon.journal.setup()) is not None and setup.policy == "fifo"


def test_a_policy_that_hangs_can_be_replaced(tmp_path: Path) -> None:
    """Its question is open: the next policy answers it."""
    file = tmp_path / "policies.py"
    file.write_text(POLICIES)
    (tmp_path / "home").mkdir()
    with running(tmp_path / "home", cluster="2xV100", policy=f"{file}:Sleeps") as daemon:
        first = submit(daemon, ["sleep", "300"])
        until_phase(daemon, first, "running")
        second = submit(daemon, "true")
        assert daemon.job(str(second)).phase == "queued"
        daemon.set_policy("fifo")
        assert ended(daemon, second).phase == "finished"
        daemon.cancel(first)
        ended(daemon, first)
        assert not daemon.status().policy_error
    check_record(tmp_path / "home")
