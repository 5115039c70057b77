"""Random graphs of jobs that wait for each other, with failures, cancellations and recovery at any entry."""

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.snapshot import make_codec
from rota.core.validate import validate
from rota.model.cluster import Cluster
from rota.model.commands import CallPolicy, Kill, Launch, Suspend
from rota.model.dependency import Dependency, When
from rota.model.events import Allocated, CancelRequested, Exited, HoldRequested, Outcome, Started, Submitted, Suspended
from rota.model.job import JobSpec
from rota.placers.packed import Packed
from rota.policies.fifo import Fifo
from rota.policies.las import Las
from tests.examples import examples

WORDS = make_codec()


class World:
    """One core, a driver that answers in random order, and what the test knows of each job's end."""

    def __init__(self, seed: int) -> None:
        self.dice = np.random.default_rng(seed)
        self.core = self.fresh()
        self.policy = Fifo(backfill=True) if seed % 2 else Las()
        self.now_s, self.journal = 0.0, list[Any]()
        self.specs: dict[int, JobSpec] = {}
        self.ended: dict[int, str] = {}
        self.running: dict[int, Launch] = {}
        self.started: set[int] = set()

    def fresh(self) -> Scheduler:
        return Scheduler(Cluster.parse("2x(2xV100)"), Packed(), Settings())

    def tell(self, *events: Any) -> None:
        waiting = list(events)
        while waiting:
            before = set(self.core.state.jobs.row)
            self.core.fold(self.now_s, waiting)
            new = {event.job for event in waiting if isinstance(event, Submitted)}
            exits = {event.job: event.outcome for event in waiting if isinstance(event, Exited)}
            for job in (before | new) - set(self.core.state.jobs.row):
                outcome = exits.get(job)
                self.ended[job] = str(outcome) if outcome in (Outcome.FINISHED, Outcome.FAILED) else "cancelled"
            decided = self.core.decide()
            self.journal.append((self.now_s, waiting, decided))
            commands = self.core.commit(decided)
            validate(self.core.state)
            self.check()
            waiting = []
            for command in commands:
                if isinstance(command, CallPolicy):
                    waiting.append(Allocated(command.ticket, self.policy.allocate(command.view), self.now_s))
                elif isinstance(command, Launch):
                    self.launch(command)
                    waiting.append(Started(command.job, command.attempt, command.sequence, self.now_s))
                elif isinstance(command, Suspend):
                    del self.running[command.job]
                    waiting.append(Suspended(command.job, command.attempt, command.sequence, self.now_s, command.kind, 1.0))
                elif isinstance(command, Kill):
                    self.running.pop(command.job, None)
                    waiting.append(Exited(command.job, command.attempt, self.now_s, Outcome.LOST, 0.0))

    def launch(self, command: Launch) -> None:
        for each in self.specs[command.job].after:
            assert each.job in self.ended, f"job {command.job} starts before job {each.job} has ended"
            assert each.when.met(self.ended[each.job]), f"job {command.job} starts though {each.job} {self.ended[each.job]}"
        self.running[command.job] = command
        self.started.add(command.job)

    def check(self) -> None:
        """No job waits for one that has ended, and no job that could never start is kept."""
        for job in self.core.state.jobs.row:
            unmet = [
                each for each in self.specs[job].after if not (each.job in self.ended and each.when.met(self.ended[each.job]))
            ]
            waits = {each.job for each in self.core.state.jobs.waits_for.get(job, ())}
            assert waits == {each.job for each in unmet} and not waits & self.ended.keys()

    def act(self) -> None:
        """Do one random thing."""
        self.now_s += float(self.dice.uniform(0, 5))
        alive = sorted(self.core.state.jobs.row)
        turn = self.dice.random()
        if turn < 0.35 or not alive:
            self.submit()
        elif turn < 0.75 and self.running:
            launch = self.running.pop(int(self.dice.choice(sorted(self.running))))
            outcome = Outcome.FAILED if self.dice.random() < 0.4 else Outcome.FINISHED
            self.tell(Exited(launch.job, launch.attempt, self.now_s, outcome, 5.0))
        elif turn < 0.85:
            self.tell(CancelRequested(int(self.dice.choice(alive)), self.now_s))
        else:
            self.tell(HoldRequested(int(self.dice.choice(alive)), self.now_s, held=bool(self.dice.random() < 0.4)))

    def submit(self) -> None:
        job = len(self.specs)
        count = int(self.dice.integers(0, 4))
        others = self.dice.choice(job, min(count, job), replace=False).tolist() if job else []
        wanted = [Dependency(other, When(str(self.dice.choice(["ok", "ok", "ended", "failed"])))) for other in others]
        # As the daemon does: what is met already is left out. What can never happen reaches the core in a race only.
        after = tuple(each for each in wanted if not (each.job in self.ended and each.when.met(self.ended[each.job])))
        self.specs[job] = JobSpec(gpus=int(self.dice.integers(1, 4)), steps=50.0, after=after)
        self.tell(Submitted(job, self.specs[job], self.now_s))

    def drain(self) -> None:
        """Release every job, and let all that runs end, until nothing happens."""
        for job in sorted(self.core.state.jobs.held):
            self.tell(HoldRequested(job, self.now_s, held=False))
        while self.running:
            launch = self.running.pop(min(self.running))
            self.now_s += 1.0
            self.tell(Exited(launch.job, launch.attempt, self.now_s, Outcome.FINISHED, 5.0))


@given(st.integers(0, 10**6))
@examples(60)
def test_no_job_starts_too_early_and_none_waits_for_ever(seed: int) -> None:
    world = World(seed)
    for _ in range(40):
        world.act()
    world.drain()
    assert not world.core.state.jobs.row, "a job waits for ever"
    assert world.ended.keys() == world.specs.keys() and not world.core.state.jobs.awaited_by


@given(st.integers(0, 10**6), st.floats(0, 1))
@examples(40)
def test_recovery_at_any_entry_gives_the_same_jobs(seed: int, where: float) -> None:
    world = World(seed)
    for _ in range(30):
        world.act()
    cut = int(where * len(world.journal))
    whole = world.fresh()
    saved = json.dumps(whole.snapshot(WORDS))
    for number, (now_s, events, decided) in enumerate(world.journal):
        whole.fold(now_s, WORDS.decode(json.loads(json.dumps(WORDS.encode(list(events))))))
        whole.commit(decided)
        if number + 1 == cut:
            saved = json.dumps(whole.snapshot(WORDS))
    half = world.fresh()
    half.restore(json.loads(saved), WORDS)
    for now_s, events, decided in world.journal[cut:]:
        half.fold(now_s, events)
        half.commit(decided)
    assert half.snapshot(WORDS) == whole.snapshot(WORDS) == world.core.snapshot(WORDS)
    world.core = half
    world.drain()
    assert not half.state.jobs.row


def test_a_chain_of_thousands_ends_when_its_first_job_fails() -> None:
    world = World(1)
    events = []
    for job in range(5_000):
        world.specs[job] = JobSpec(after=(Dependency(job - 1),) if job else ())
        events.append(Submitted(job, world.specs[job], 0.0))
    core = world.core
    core.step(0.0, events)
    core.fold(1.0, [CancelRequested(0, 1.0)])
    assert not core.state.jobs.row and not core.state.jobs.waits_for and not core.state.jobs.awaited_by
    assert core.state.jobs.ended_because[4_999][1] == "it was to start when job 4998 has finished, but that was cancelled"
