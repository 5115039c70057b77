"""Trials of pairs, with real processes on pretend GPUs: measured, kept or reverted, and remembered across restarts."""

import json
import subprocess
import sys
from pathlib import Path

from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler
from rota.core.scheduler import Scheduler
from rota.core.validate import validate
from rota.live.replay import replay
from rota.model.events import Measured
from rota.wire.rows import TrialRow
from tests.live.harness import Site, until

TRAINER = '''
"""Makes a step every `pace` seconds. With `penalty`, one job makes a step at a time, and takes longer if it had to wait."""
import fcntl, signal, sys, time
lock, pace, penalty = open(sys.argv[1], "a"), float(sys.argv[2]), float(sys.argv[3])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
step = 0
while True:
    if penalty:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(lock, fcntl.LOCK_EX)
            time.sleep(penalty)
    time.sleep(pace)
    if penalty:
        fcntl.flock(lock, fcntl.LOCK_UN)
        time.sleep(pace / 10)  # who waits comes first
    step += 1
    print(f"step {step}", flush=True)
'''


def submit(place: Site, name: str, penalty: float) -> int:
    script = place.work / "trainer.py"
    script.write_text(TRAINER)
    run = [sys.executable, "-S", str(script), str(place.work / "gpu.lock"), "0.1", str(penalty)]
    job = place.client().submit(
        run=run, gpus=1, steps=1_000_000, name=name, profile="net", progress=r"step (\d+)", checkpoint={"grace": 20}
    )
    return int(job.id)


def shown(place: Site, job: int, *flags: str) -> str:
    command = [sys.executable, "-m", "rota", "show", str(job), "--home", str(place.home), *flags]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def trials(place: Site, job: int) -> list[TrialRow]:
    return place.client().job(job).trials or []


def last_state(place: Site) -> tuple[Scheduler, list[tuple[int, Measured]]]:
    """By a replay that must lead to the same decisions: the scheduler, and what was measured, with the number of the entry."""
    journal = place.journal()
    measured: list[tuple[int, Measured]] = []
    for entry, scheduler, difference in replay(journal, JOURNAL_CODEC, make_scheduler):
        assert difference is None, difference
        validate(scheduler.state)
        measured += [(entry.number, event) for event in entry.events if isinstance(event, Measured)]
    journal.close()
    return scheduler, measured


def phases(place: Site, *jobs: int) -> list[str]:
    rows = place.rows()
    return [rows[job].phase for job in jobs]


def test_a_pair_that_disturbs_each_other_is_undone_and_not_tried_again(tmp_path: Path) -> None:
    place = Site(tmp_path, pretend="1xV100", policy="fifo")
    try:
        place.up(tactics="pack:settle_seconds=2,min_gain=0.1")
        first = submit(place, "first", penalty=0.2)
        second = submit(place, "second", penalty=0.2)
        until(lambda: [each.verdict for each in trials(place, second)] not in ([], ["open"]), "they were tried together")
        (trial,) = trials(place, second)
        assert (trial.verdict, trial.partner, trial.joined, trial.pair) == ("reverted", first, True, ["net", "net"])
        assert trial.gain is not None and trial.gain < 0.1
        assert trial.colocated_rate is not None and trial.colocated_rate < trial.exclusive_rate
        assert trial.partner_colocated_rate is not None and trial.partner_colocated_rate < trial.partner_exclusive_rate
        assert [(each.number, each.joined) for each in trials(place, first)] == [(trial.number, False)]
        until(lambda: phases(place, first, second) == ["running", "checkpointed"], "the second one waits again")
        assert f" joined {first} first: " in shown(place, second) and ": reverted at " in shown(place, second)
        assert json.loads(shown(place, second, "-o", "json"))["trials"][0]["pair_trials"] == 1
        place.kill()

        before = len(last_state(place)[1])
        del place.flags["--tactics"]
        place.up()
        until(lambda: "--tactics pack:settle_seconds=2,min_gain=0.1" in place.said(), "it says what it goes on with")
        third = submit(place, "third", penalty=0.2)
        until(lambda: len(last_state(place)[1]) > before, "the first one is measured again after the restart")
        assert phases(place, first, second, third) == ["running", "checkpointed", "queued"]
        assert [len(trials(place, job)) for job in (first, second, third)] == [1, 1, 0]
        place.kill()

        scheduler, measured = last_state(place)
        known = scheduler.state.beliefs
        assert known.trials_begun == 1 and known.verdicts == {"reverted": 1} and not known.trials
        assert known.pairs["net", "net", "V100", 1].times == 1
        assert all((event.rate > 0).all() and (event.since_s < event.at_s).all() for _, event in measured)
    finally:
        place.close()


def test_a_pair_that_gains_is_kept_though_the_daemon_was_killed_while_it_was_on_trial(tmp_path: Path) -> None:
    place = Site(tmp_path, pretend="1xV100", policy="fifo")
    try:
        place.up(tactics="pack:settle_seconds=8")
        first, second = submit(place, "first", penalty=0.0), submit(place, "second", penalty=0.0)
        until(lambda: len(trials(place, second)) == 1, "they are to share the GPU")
        place.kill()

        place.up()
        until(lambda: trials(place, second)[0].verdict != "open", "the pair is judged after the restart")
        assert phases(place, first, second) == ["running", "running"]
        (trial,) = trials(place, first)
        assert (trial.verdict, trial.joined, trial.pair_trials) == ("kept", False, 1)
        assert trial.gain is not None and trial.gain > 0.2 and trial.mean_gain == trial.gain
        assert place.client().set_policy("las").policy == "las"
        until(lambda: last_state(place)[0].settings.policy == "las", "another policy decides")
        place.kill()

        scheduler, _ = last_state(place)
        pack, known = scheduler.settings.tactics.colocating, scheduler.state.beliefs
        assert pack is not None and pack.settle_seconds == 8
        assert known.sharing and known.trials_begun == 1 and known.verdicts == {"kept": 1}
    finally:
        place.close()
