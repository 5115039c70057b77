"""Chaos: the same core against a driver that delays, drops, repeats and reorders messages, crashes nodes, jobs, the policy and
the core itself, cuts nodes off, and lets clocks drift. The driver knows the truth, and checks the core against it at every step.

Time is virtual and everything follows from one seed, so every failure can be reproduced.
"""

import heapq
import itertools
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from rota.beliefs.rates import SAME_SPEED, Rates
from rota.core.decision_timing import AtRounds
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.setup import GivenBeliefs, Setup
from rota.core.snapshot import make_codec
from rota.core.validate import validate
from rota.errors import RotaError
from rota.model.cluster import Cluster
from rota.model.codec import Plain
from rota.model.commands import CallPolicy, Command, JobCommand, Launch, Renew, Resize, Resume, SetTimer, Suspend, SuspendKind
from rota.model.events import (
    Allocated,
    CancelRequested,
    Decided,
    Exited,
    External,
    HoldRequested,
    NodeDrainChanged,
    NodeJoined,
    NodeLeft,
    NodeLost,
    Outcome,
    PolicyFailed,
    PolicyTimedOut,
    RequeueRequested,
    Submitted,
    TimerFired,
)
from rota.model.job import JobSpec
from rota.model.placement_view import Placer
from rota.model.policy import Policy
from rota.model.tenants import Tenants
from rota.model.units import FOREVER, MILLI
from rota.sim.agents import Agent, SimulatedTask


class Broken(RotaError):
    """The truth contradicts a guarantee of the core."""


@dataclass(frozen=True, kw_only=True)
class Faults:
    """How hostile the world is until `until_s`. Probabilities are per message, rates per second."""

    until_s: float = 600.0
    """Time after which nothing fails any more, and every job must end."""
    drop: float = 0.1
    repeat: float = 0.1
    delay_seconds: float = 1.0
    """Mean delay of a message, in seconds; exponential, so messages overtake each other."""
    batch_seconds: float = 0.4
    """Events that arrive within this time, in seconds, may reach the core in one step."""
    node_crash: float = 1 / 400
    job_crash: float = 1 / 100
    """Rate of crashes, of parked jobs too. One crash in four is a yield that was not requested."""
    core_crash: float = 1 / 120
    core_crash_in_step: float = 1 / 400
    """Probability, per step, that the core dies after its decision is journalled and before any command is sent."""
    partition: float = 1 / 200
    policy_failure: float = 0.1
    drift_seconds: float = 0.5
    """Longest delay until an agent notices that a lease has expired, in seconds."""
    cancel: float = 1 / 100
    hold: float = 1 / 50
    node_join: float = 0.0
    node_leave: float = 0.0
    """Rate at which nodes leave. Only nodes that joined leave, so every job can still run."""
    node_drain: float = 0.0
    """Rate at which nodes are drained, each for up to a minute."""


HOSTILE_SETTINGS = Settings(
    decide=AtRounds(round_seconds=20.0, at_events=True),
    lease_seconds=30.0,
    lease_margin_seconds=1.0,
    retry_seconds=4.0,
    node_timeout_seconds=12.0,
    policy_retry_seconds=2.0,
)
REPORT_SECONDS = 3.0


@dataclass
class _Gang:
    """The truth about one attempt, which makes progress only while its processes on every node run."""

    job: int
    attempt: int
    nodes: tuple[int, ...]
    steps: float
    gpus: tuple[int, ...]
    running: set[int] = field(default_factory=set)
    since_s: float = FOREVER
    suspended: set[int] = field(default_factory=set)


class Chaos:
    """A hostile world around one core."""

    def __init__(
        self,
        cluster: Cluster,
        jobs: list[JobSpec],
        policy: Policy,
        placer: Placer,
        *,
        seed: int = 0,
        faults: Faults | None = None,
        settings: Settings = HOSTILE_SETTINGS,
        rates: Rates = SAME_SPEED,
        memory_types: tuple[type, ...] = (),
        tenants: Tenants | None = None,
        check_every: int = 1,
    ) -> None:
        self.cluster, self.policy, self.placer = cluster, policy, placer
        self.faults = faults or Faults()
        self.settings = replace(settings, seed=seed)
        given = GivenBeliefs(rates=rates)
        self.setup = Setup(settings=self.settings, placer=placer, given=given, tenants=tenants)
        self.words = make_codec(*memory_types)
        self.dice = random.Random(seed)
        self.now_s = 0.0
        self.steps = 0
        self.counts: dict[str, int] = {}
        self.core = Scheduler.of(cluster, self.setup)
        self.snapshot: Plain = self.core.snapshot(self.words)
        self.journal: list[tuple[float, list[External], Decided | None]] = []
        self.agents = [Agent(self, node) for node in range(len(cluster.nodes))]
        self.first_nodes = len(cluster.nodes)
        self.left: set[int] = set()
        """Nodes that left permanently."""
        self.cut_off: dict[int, float] = {}
        self.storage: dict[int, float] = {}
        self.gangs: dict[tuple[int, int], _Gang] = {}
        self.gpu_owner: dict[int, dict[tuple[int, int], int | None]] = {}
        """GPU -> (job, attempt) of each job that holds it -> the partner named in that job's command."""
        self.specs = jobs
        self.finished: set[int] = set()
        self.failed: set[int] = set()
        self.failures: dict[int, int] = {}
        self.known: set[int] = set()
        self.cancelled: set[int] = set()
        self.check_every = check_every
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._inbox: list[External] = []
        self._wake_s = FOREVER

    # Running -----------------------------------------------------------------------------------------------------

    def run(self, most_steps: int = 1_000_000) -> "Chaos":
        """Run until every job has ended. Raise Broken if the core violates a guarantee."""
        for agent in self.agents:
            self._at(self.dice.random() * REPORT_SECONDS, partial(self._report, agent))
        for _ in self.specs:
            self._at(self.dice.random() * self.faults.until_s / 2, self._submit)
        for rate, act in (
            (self.faults.node_crash * len(self.agents), self._crash_node),
            (self.faults.job_crash * len(self.agents), self._crash_job),
            (self.faults.core_crash, self._crash_core),
            (self.faults.partition * len(self.agents), self._partition),
            (self.faults.cancel, self._cancel),
            (self.faults.hold, self._hold),
            (self.faults.node_join, self._join),
            (self.faults.node_leave, self._leave),
            (self.faults.node_drain, self._drain),
        ):
            if rate > 0:
                self._recur(rate, act)
        while len(self.finished | self.cancelled | self.failed) < len(self.specs) or self._unsettled():
            if self.steps >= most_steps:
                raise Broken(f"after {self.steps} steps and {self.now_s:.0f} s, jobs {self._missing()} have not ended")
            if not self._heap and self._wake_s == FOREVER:
                raise Broken(f"nothing more can happen at {self.now_s:.0f} s; jobs {self._missing()} have not ended")
            self._next()
        return self

    def _unsettled(self) -> bool:
        """Return whether the core has jobs whose end it has not learned of."""
        return bool(self.core.state.jobs.row)

    def _missing(self) -> list[int]:
        return sorted(set(range(len(self.specs))) - self.finished - self.cancelled - self.failed)

    def _next(self) -> None:
        self.steps += 1
        if self._heap and self._heap[0][0] <= self._wake_s:
            self.now_s, _, act = heapq.heappop(self._heap)
            act()
        else:
            self.now_s, self._wake_s = max(self._wake_s, self.now_s), FOREVER
            self.tell([TimerFired(self.now_s)])

    def _at(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (at_s, next(self._order), act))

    def _recur(self, rate: float, act: Callable[[], None]) -> None:
        def again() -> None:
            if self.now_s < self.faults.until_s:
                act()
                self._recur(rate, act)

        self._at(self.now_s + self.dice.expovariate(rate), again)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    # The core ----------------------------------------------------------------------------------------------------

    def tell(self, events: list[External]) -> None:
        """Do one step of the core. The journal is written before any command is sent."""
        self.core.fold(self.now_s, events)
        decided = self.core.decide()
        self.journal.append((self.now_s, events, decided))
        if self._unlucky(self.faults.core_crash_in_step):
            self._count("core crashes before sending")
            self.recover()
            self._give_up_on_the_policy()
            return
        commands = self.core.commit(decided)
        self._check_ends()
        if self.steps % self.check_every == 0:
            self._validate()
        for command in commands:
            self._carry_out(command)

    def _check_ends(self) -> None:
        """Check that the core forgets only jobs that have ended."""
        for job in self.known - self.core.state.jobs.row.keys():
            if self.failures.get(job, 0) > self.specs[job].retries:
                self.failed.add(job)
            elif job not in self.finished | self.cancelled:
                raise Broken(f"at {self.now_s:.3f} s: the core forgot job {job}")
        self.known &= self.core.state.jobs.row.keys()

    def _validate(self) -> None:
        try:
            validate(self.core.state)
        except AssertionError as story:
            raise Broken(f"at {self.now_s:.3f} s: {story}") from story

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, SetTimer):
            self._wake_s = command.at_s
        elif isinstance(command, CallPolicy):
            self._call_policy(command)
        else:
            for node in command.nodes:
                self._send(node, partial(self._deliver, node, command))

    def _call_policy(self, command: CallPolicy) -> None:
        """Call the policy with the present view. The answer arrives with a delay, or a failure or a time-out arrives instead."""
        answer: External = Allocated(command.ticket, self.policy.allocate(command.view), self.now_s)
        if self._unlucky(self.faults.policy_failure):
            self._count("policy failures")
            late = self.dice.random() < 0.5
            answer = PolicyTimedOut(command.ticket, self.now_s) if late else PolicyFailed(command.ticket, self.now_s, "chaos")
        core = self.core

        def arrive() -> None:
            if self.core is core:  # the core that called may have died meanwhile
                self.tell([answer])

        self._at(self.now_s + self.dice.expovariate(1 / self.faults.delay_seconds), arrive)

    def _crash_core(self) -> None:
        """Kill the core between two steps, and check that recovery gives the same state."""
        self._count("core crashes")
        before = self.core.snapshot(self.words)
        self.recover()
        if self.core.snapshot(self.words) != before:
            raise Broken(f"at {self.now_s:.3f} s: recovery gave another state")
        self._give_up_on_the_policy()

    def recover(self) -> None:
        """Build a new core from the last snapshot and the journal since then. Recorded decisions are not made again."""
        twin = Scheduler.of(self.cluster, self.setup)
        twin.restore(json.loads(json.dumps(self.snapshot)), self.words)
        for now_s, events, decided in self.journal:
            twin.fold(now_s, events)
            twin.commit(decided)
        self.core = twin
        self.snapshot, self.journal = twin.snapshot(self.words), []
        self._wake_s = twin.state.cycle.timer_s
        self._check_ends()

    def _give_up_on_the_policy(self) -> None:
        """Time out an open policy call: its worker died with the core."""
        if self.core.state.cycle.call_jobs is not None:
            self.tell([PolicyTimedOut(self.core.state.cycle.decision, self.now_s)])

    # The network -------------------------------------------------------------------------------------------------

    def _unlucky(self, probability: float) -> bool:
        return self.now_s < self.faults.until_s and self.dice.random() < probability

    def _send(self, node: int, deliver: Callable[[], None]) -> None:
        copies = 1
        if self._unlucky(self.faults.drop):
            copies = 0
            self._count("drops")
        elif self._unlucky(self.faults.repeat):
            copies = 2
            self._count("repeats")
        for _ in range(copies):
            delay = self.dice.expovariate(1 / self.faults.delay_seconds)
            self._at(self.now_s + delay, lambda: self._pass(node, deliver))

    def _pass(self, node: int, deliver: Callable[[], None]) -> None:
        """Deliver a message unless the node is cut off."""
        if self.cut_off.get(node, 0.0) <= self.now_s:
            deliver()

    def _deliver(self, node: int, command: JobCommand | Renew) -> None:
        if self.agents[node].up:
            self.agents[node].receive(command)

    def to_core(self, node: int, event: External) -> None:
        self._send(node, partial(self._arrive, event))

    def _arrive(self, event: External) -> None:
        """Collect events that arrive in short succession, and pass them to the core together."""
        if not self._inbox:
            self._at(self.now_s + self.dice.random() * self.faults.batch_seconds, self._flush)
        self._inbox.append(event)

    def _flush(self) -> None:
        events, self._inbox = self._inbox, []
        self.tell(events)

    # The truth ---------------------------------------------------------------------------------------------------

    def span(self, node: int) -> tuple[int, int]:
        return int(self.cluster.node_first[node]), int(self.cluster.node_first[node + 1])

    def part_started(self, node: int, command: Launch, gpus: tuple[int, ...]) -> None:
        job = command.job
        self._check_size(command)
        if command.lease_s <= self.now_s:
            raise Broken(f"at {self.now_s:.3f} s: job {job} was started after its lease, which ended at {command.lease_s:.3f} s")
        for other in self.agents:
            part = other.parts.get(job)
            if part is not None and part.lives and part.attempt != command.attempt:
                raise Broken(f"job {job} is running twice: attempt {part.attempt} on node {other.node} and {command.attempt}")
        key, whole = (job, command.attempt), tuple(command.gpus.tolist())
        gang = self.gangs.setdefault(key, _Gang(job, command.attempt, command.nodes, self.storage.get(job, 0.0), whole))
        self._take(command, gpus)
        self._part_runs(gang, node)
        self._watch_lease(node, job, command.attempt)

    def part_resumed(self, node: int, command: Resume, gpus: tuple[int, ...]) -> None:
        self._take(command, gpus)
        self._part_runs(self.gangs[command.job, command.attempt], node)

    def part_resized(self, node: int, command: Resize, gpus: tuple[int, ...]) -> None:
        """Free GPUs that the job gives up, and take new ones. Raise Broken if another job holds one of them."""
        self._check_size(command)
        self._count("resizes")
        job, first, end = command.job, *self.span(node)
        gang = self.gangs[job, command.attempt]
        gang.gpus = tuple(command.gpus.tolist())
        mine = {gpu for gpu, owners in self.gpu_owner.items() if (job, gang.attempt) in owners and first <= gpu < end}
        self._free(job, gang.attempt, mine - set(gpus))
        for gpu in set(gpus) - mine:
            if self.gpu_owner.get(gpu):
                raise Broken(f"at {self.now_s:.3f} s: job {job} grew onto GPU {gpu}, which jobs {[*self.gpu_owner[gpu]]} hold")
            self.gpu_owner[gpu] = {(job, gang.attempt): -1}

    def _check_size(self, command: Launch | Resize) -> None:
        """Check that the job gets a size that it accepts, that its option has the same size, and that all GPUs have one
        accelerator type."""
        job, options, gpus = command.job, self.core.state.beliefs.options, len(set(command.gpus.tolist()))
        spec = self.specs[job]
        if gpus not in (spec.gpu_counts or (spec.width,)):
            raise Broken(f"job {job} got {gpus} GPUs and accepts {spec.gpu_counts or spec.gpus}")
        if command.batch_size not in (spec.batch_sizes or (spec.batch_size,)):
            raise Broken(f"job {job} got batch size {command.batch_size} and accepts {spec.batch_sizes or spec.batch_size}")
        if (gpus, command.batch_size or 0) != (options.gpus[command.option], options.batch_size[command.option]):
            raise Broken(f"job {job} got {gpus} GPUs and batch size {command.batch_size}, which is not the size of its option")
        if len(set(self.cluster.gpu_pool[command.gpus].tolist())) != 1:
            raise Broken(f"job {job} got several accelerator types")

    def _take(self, command: Launch | Resume, gpus: tuple[int, ...]) -> None:
        """Record who holds these GPUs. Two jobs may hold a GPU if one was given as the other's partner, and then all their GPUs
        are the same. Several jobs may hold fractions of a GPU if they fit. Raise Broken otherwise."""
        job = command.job
        for gpu in gpus:
            owners = self.gpu_owner.setdefault(gpu, {})
            parts = [self.specs[each].milli_per_gpu for each in (job, *(other for other, _ in owners))]
            if owners and max(parts) < MILLI:
                if sum(parts) > MILLI:
                    raise Broken(f"at {self.now_s:.3f} s: jobs {[job, *owners]} have more than all of GPU {gpu}")
                self._count("split")
                owners[job, command.attempt] = command.partner
                continue
            for (other, attempt), beside in owners.items():
                if len(owners) > 1 or (command.partner != other and beside != job):
                    raise Broken(f"at {self.now_s:.3f} s: GPU {gpu} is held by job {other} and given to job {job}")
                if self.gangs[other, attempt].gpus != self.gangs[job, command.attempt].gpus:
                    raise Broken(f"at {self.now_s:.3f} s: jobs {other} and {job} share GPU {gpu} but not all their GPUs")
                self._count("shared")
            owners[job, command.attempt] = command.partner

    def _steps_total(self, job: int) -> float:
        steps = self.specs[job].steps
        return FOREVER if steps is None else steps

    def _part_runs(self, gang: _Gang, node: int) -> None:
        gang.running.add(node)
        gang.suspended.discard(node)
        if len(gang.running) == len(gang.nodes):
            gpus = [gpu for gpu, owners in self.gpu_owner.items() if (gang.job, gang.attempt) in owners]
            if len(gpus) != len(gang.gpus):
                raise Broken(f"at {self.now_s:.3f} s: job {gang.job} runs on {len(gpus)} of {len(gang.gpus)} GPUs")
            gang.since_s = self.now_s
            left = self._steps_total(gang.job) - gang.steps
            self._at(self.now_s + left, partial(self._complete, gang, self.now_s))

    def _pause(self, gang: _Gang, node: int) -> None:
        if gang.since_s < FOREVER:
            gang.steps += self.now_s - gang.since_s
            gang.since_s = FOREVER
        gang.running.discard(node)

    def _complete(self, gang: _Gang, since_s: float) -> None:
        if gang.since_s != since_s:
            return  # the gang was stopped meanwhile
        self.finished.add(gang.job)
        self._count("finished")
        self.storage[gang.job] = self._steps_total(gang.job)
        for node in gang.nodes:
            agent = self.agents[node]
            part = agent.parts[gang.job]
            agent.end(gang.job, part, Outcome.FINISHED)
            self.to_core(node, Exited(gang.job, gang.attempt, self.now_s, Outcome.FINISHED, part.steps, node))

    def part_suspended(self, node: int, command: Suspend, part: SimulatedTask) -> float:
        """Suspend a gang on one node, and return its steps. A checkpoint counts once every node has written its shard."""
        job = command.job
        gang = self.gangs[job, part.attempt]
        self._pause(gang, node)
        self._free(job, part.attempt, part.gpus)
        gang.suspended.add(node)
        if command.kind is SuspendKind.CHECKPOINT and not self.specs[job].saves:
            return self.storage.get(job, 0.0)
        if command.kind is SuspendKind.CHECKPOINT and len(gang.suspended) == len(gang.nodes):
            self.storage[job] = max(self.storage.get(job, 0.0), gang.steps)
        return gang.steps

    def part_ended(self, node: int, job: int, part: SimulatedTask) -> None:
        self._pause(self.gangs[job, part.attempt], node)
        self._free(job, part.attempt, part.gpus)

    def _free(self, job: int, attempt: int, gpus: Iterable[int]) -> None:
        """Free these GPUs. A parked job holds none, so another job may have them now."""
        for gpu in gpus:
            owners = self.gpu_owner.get(gpu, {})
            owners.pop((job, attempt), None)
            if not owners:
                self.gpu_owner.pop(gpu, None)

    def _watch_lease(self, node: int, job: int, attempt: int) -> None:
        """Let the agent stop an attempt that outlives its lease, by the agent's own clock, which may be slow."""
        agent, drift = self.agents[node], self.dice.random() * self.faults.drift_seconds

        def check() -> None:
            part = agent.parts.get(job)
            if part is None or part.attempt != attempt or not part.lives:
                return
            if part.lease_s + drift > self.now_s + 1e-9:
                self._at(part.lease_s + drift, check)
                return
            if agent.end_if_lease_is_over(job, self.now_s - drift + 1e-9):
                self._count("leases ended")

        self._at(agent.parts[job].lease_s + drift, check)

    # Faults ------------------------------------------------------------------------------------------------------

    def _submit(self) -> None:
        job = self.core.state.jobs.last_job + 1
        self.known.add(job)
        self.tell([Submitted(job, self.specs[job], self.now_s)])

    def _report(self, agent: Agent) -> None:
        if agent.up:
            agent.report()
        self._at(self.now_s + REPORT_SECONDS, lambda: self._report(agent))

    def _join(self) -> None:
        """Add a node. Like a submission, the message of the driver is never lost."""
        self._count("joins")
        model = self.dice.choice(self.cluster.nodes)
        node = replace(model, name=f"new{len(self.agents)}", gpus=self.dice.randrange(1, 5))
        self.cluster = replace(self.cluster, nodes=(*self.cluster.nodes, node), text="")
        agent = Agent(self, len(self.agents))
        self.agents.append(agent)
        self.tell([NodeJoined(node, self.now_s)])
        self._report(agent)

    def _leave(self) -> None:
        """Remove a node that joined, with all its processes, permanently."""
        joined = [agent for agent in self.agents[self.first_nodes :] if agent.node not in self.left]
        if joined:
            self._count("leaves")
            agent = self.dice.choice(joined)
            self._end_all(agent)
            self.left.add(agent.node)
            self.tell([NodeLeft(agent.node, self.now_s)])

    def _drain(self) -> None:
        self._count("drains")
        node = self.dice.randrange(len(self.agents))
        self.tell([NodeDrainChanged(node, self.now_s)])
        self._at(self.now_s + self.dice.uniform(1, 60), lambda: self.tell([NodeDrainChanged(node, self.now_s, draining=False)]))

    def _end_all(self, agent: Agent) -> None:
        """Kill every process of a node, and let the node stop answering."""
        for job, part in agent.parts.items():
            if part.lives:
                agent.end(job, part, Outcome.LOST)
        agent.parts, agent.highest, agent.up = {}, {}, False

    def _crash_node(self) -> None:
        agent = self.dice.choice(self.agents)
        if not agent.up:
            return
        self._count("node crashes")
        self._end_all(agent)
        if self.dice.random() < 0.5:
            self._count("losses vouched for")
            self._send(agent.node, partial(self._arrive, NodeLost(agent.node, agent.boot, self.now_s)))

        def back() -> None:
            agent.boot += 1
            agent.up = agent.node not in self.left

        self._at(self.now_s + self.dice.uniform(1, 60), back)

    def _crash_job(self) -> None:
        agent = self.dice.choice(self.agents)
        alive = [(job, part) for job, part in sorted(agent.parts.items()) if part.lives]
        if alive and agent.up:
            job, part = self.dice.choice(alive)
            outcome = self.dice.choice([Outcome.FAILED, Outcome.FAILED, Outcome.FAILED, Outcome.YIELDED])
            self._count("job crashes" if outcome is Outcome.FAILED else "yields")
            if outcome is Outcome.FAILED:
                self.failures[job] = self.failures.get(job, 0) + 1
            agent.end(job, part, outcome)
            self.to_core(agent.node, Exited(job, part.attempt, self.now_s, outcome, part.steps, agent.node))

    def _partition(self) -> None:
        self._count("partitions")
        node = self.dice.randrange(len(self.agents))
        self.cut_off[node] = self.now_s + self.dice.uniform(1, 2 * self.settings.lease_seconds)

    def _cancel(self) -> None:
        known = sorted(self.core.state.jobs.row)
        if known and self.dice.random() < 0.2:
            self._count("cancels")
            job = self.dice.choice(known)
            self.cancelled.add(job)
            self.tell([CancelRequested(job, self.now_s)])

    def _hold(self) -> None:
        known = sorted(self.core.state.jobs.row)
        if known:
            self._count("holds")
            job = self.dice.choice(known)
            again = self.dice.random() < 0.5
            self.tell([RequeueRequested(job, self.now_s) if again else HoldRequested(job, self.now_s)])
            self._at(self.now_s + self.dice.uniform(1, 40), lambda: self.tell([HoldRequested(job, self.now_s, held=False)]))
