"""Health checks before launches: a launch waits until an operator's command has passed on each of its nodes.

A node is checked when a job is about to start there, unless it has passed within the interval. If the check fails, its GPUs
are drained, and launches that wait for it are given up: a kill goes to their agents, so they never start, and the core places the
jobs elsewhere. A drained node is checked again at the interval, and the drain ends when the check passes.
"""

import secrets
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rota.agent.health_check import CheckHealth, HealthResult
from rota.core.state.state import State
from rota.errors import OptionError
from rota.live.given_beliefs import GivenFlag, GivenFlags
from rota.model.commands import Kill, Launch
from rota.model.events import DrainCancelled, External, GpusDrained
from rota.model.units import FOREVER

CHECK, SECONDS, EVERY = "health_check", "health_check_seconds", "health_check_every"
"""Names of the flags that a home keeps."""
CHECK_SECONDS, EVERY_SECONDS = 30.0, 600.0
"""Default time limit of a check, and default interval between checks of a node, in seconds."""
SLACK_SECONDS = 30.0
"""Time beyond its limit after which the result of a check counts as lost, in seconds."""
LAST_SEQUENCE = 1 << 40
"""Sequence of a kill that is newer than all other commands for its attempt."""


@dataclass(frozen=True)
class HealthCheck:
    """The health check of a home."""

    argv: tuple[str, ...]
    seconds: float
    """Time limit, in seconds."""
    every_seconds: float
    """Interval between two checks of a node, in seconds."""


def health_flags(command: str | None, seconds: float | None, every: str | float | None) -> GivenFlags:
    """Return the flags that were given, as a home keeps them. Raise for the first mistake."""
    if command is not None:
        _words(command)
    for flag, value in (("--health-check-seconds", seconds), ("--health-check-every", every)):
        if value is not None and not 0 < float(value) < FOREVER:
            raise OptionError("must be more than 0.", field=flag, value=value, hint=f"{flag} 30")
    given = {CHECK: command, SECONDS: seconds, EVERY: every}
    return {name: GivenFlag(value) for name, value in given.items() if value is not None}


def health_check_of(flags: GivenFlags) -> HealthCheck | None:
    """Return the health check of a home; None if it has none."""
    if CHECK not in flags:
        return None
    values = {name: float(flags[name].text) for name in (SECONDS, EVERY) if name in flags}
    return HealthCheck(_words(flags[CHECK].text), values.get(SECONDS, CHECK_SECONDS), values.get(EVERY, EVERY_SECONDS))


def _words(command: str) -> tuple[str, ...]:
    """Split a command into words. No shell ever sees it."""
    hint = '--health-check "/usr/local/bin/check-gpus --quick"'
    try:
        words = tuple(shlex.split(command))
    except ValueError as problem:
        raise OptionError(f"cannot be split: {problem}.", field="--health-check", value=command, hint=hint) from None
    if not words or "\0" in command:
        raise OptionError("is not a command.", field="--health-check", value=command, hint=hint)
    return words


@dataclass(slots=True)
class _NodeCheck:
    """The last check of a node."""

    number: int = 0
    """Number of its last request; 0 before the first."""
    asked_s: float | None = None
    """Time of the request whose result is awaited; None if none is."""
    passed_s: float = -FOREVER
    failed_s: float = -FOREVER


@dataclass(slots=True)
class _Held:
    """A launch that waits for health checks."""

    command: Launch
    since_s: float


@dataclass
class NodeHealth:
    """The health of all nodes. For the thread of the daemon's loop."""

    check: HealthCheck | None
    state: Callable[[], State]
    new_drain: Callable[[], int]
    """Return the number of a new drain."""
    wake: Callable[[], None]
    """Wake the loop, because a result has come."""
    _nodes: dict[int, _NodeCheck] = field(default_factory=dict)
    _held: dict[int, _Held] = field(default_factory=dict)
    """Launches that wait, by job."""
    _numbers: int = field(default_factory=lambda: secrets.randbits(40))
    """Number of the last request. Agents remember requests of earlier schedulers, so it does not begin at 0."""
    _wanted: dict[int, int] = field(default_factory=dict)
    """Requests to send: node -> number of the request."""
    _given_up: list[Launch] = field(default_factory=list)

    @property
    def busy(self) -> bool:
        """Whether something is awaited, or a drained node is to be checked again."""
        return self.check is not None and (bool(self._held) or self._has_drains())

    def admit(self, launch: Launch, now_s: float) -> str:
        """Return why a launch has to wait; empty if it may go."""
        if self.check is None:
            return ""
        held = self._held.setdefault(launch.job, _Held(launch, now_s))
        if held.command.attempt != launch.attempt:
            held = self._held[launch.job] = _Held(launch, now_s)
        names = []
        for node in launch.nodes:
            if self._drains_of(node):
                self._given_up.append(self._held.pop(launch.job).command)
                return f"{self.state().nodes.cluster.nodes[node].name} has failed its health check"
            self._nodes.setdefault(node, _NodeCheck())
            if self._has_passed(node, held.since_s):
                continue
            names.append(self.state().nodes.cluster.nodes[node].name)
            self._ask(node, now_s)
        if names:
            return f"the health check of {', '.join(names)} is running"
        del self._held[launch.job]
        return ""

    def drop(self, job: int) -> None:
        """Forget a launch that is not wanted any longer."""
        self._held.pop(job, None)

    def requests(self) -> list[tuple[int, CheckHealth]]:
        """Return the requests to send, each with its node. The driver adds CUDA's numbers of the GPUs."""
        if self.check is None:
            return []
        names = self.state().nodes.cluster.nodes
        found = [
            (node, CheckHealth(names[node].name, number, self.check.argv, self.check.seconds, ()))
            for node, number in self._wanted.items()
        ]
        self._wanted.clear()
        return found

    def kills(self) -> list[Kill]:
        """Return the kills of launches that were given up."""
        found = [Kill(each.job, each.attempt, LAST_SEQUENCE, each.nodes) for each in self._given_up]
        self._given_up.clear()
        return found

    def ready(self, now_s: float) -> list[Launch]:
        """Return launches that waited, are still wanted, and may go now."""
        wanted, jobs = [], self.state().jobs
        for job, held in list(self._held.items()):
            attempt, flight = jobs.attempts.get(job), jobs.in_flight.get(job)
            if attempt is None or attempt.number != held.command.attempt or flight is None or jobs.to_kill(job):
                del self._held[job]
            elif all(self._has_passed(node, held.since_s) for node in held.command.nodes):
                wanted.append(held.command)
        return wanted

    def take(self, results: Sequence[HealthResult], now_s: float) -> list[External]:
        """Take in results of checks. Return the drains that begin and end."""
        numbers = {known.number: node for node, known in self._nodes.items() if known.asked_s is not None}
        events: list[External] = []
        for result in results:
            node = numbers.get(result.number)
            if node is None:
                continue  # of an earlier request
            known = self._nodes[node]
            known.asked_s = None
            self.wake()
            if result.passed:
                known.passed_s = now_s
                events += [DrainCancelled(drain, now_s) for drain in self._drains_of(node)]
                continue
            known.failed_s = now_s
            events += self._drain(node, result.text, now_s)
            lost = [job for job, held in self._held.items() if node in held.command.nodes]
            self._given_up += [self._held.pop(job).command for job in lost]
        return events

    def look(self, now_s: float) -> list[External]:
        """Check drained nodes again when it is time. Return the end of drains of which the home no longer has a check."""
        drains = self.state().nodes.drains
        if not drains:
            return []
        if self.check is None:
            return [DrainCancelled(number, now_s) for number, drain in drains.items() if drain.by_check]
        gpu_node = self.state().nodes.cluster.gpu_node
        for node in {gpu_node.item(gpu) for drain in drains.values() if drain.by_check for gpu in drain.gpus}:
            known = self._nodes.setdefault(node, _NodeCheck())
            if known.failed_s + self.check.every_seconds <= now_s:
                self._ask(node, now_s)
        return []

    def _ask(self, node: int, now_s: float) -> None:
        """Request a check of a node, unless one is under way."""
        assert self.check is not None
        known = self._nodes[node]
        if known.asked_s is not None and now_s < known.asked_s + self.check.seconds + SLACK_SECONDS:
            return
        self._numbers += 1
        known.number, known.asked_s = self._numbers, now_s
        self._wanted[node] = known.number

    def _has_passed(self, node: int, since_s: float) -> bool:
        """Whether a launch that has waited since this time may go to a node."""
        known = self._nodes[node]
        assert self.check is not None
        return known.passed_s >= since_s or known.passed_s > max(known.failed_s, since_s - self.check.every_seconds)

    def _drain(self, node: int, text: str, now_s: float) -> list[External]:
        """Drain the GPUs of a node that no operator drains."""
        nodes = self.state().nodes
        first, end = nodes.cluster.node_first[node : node + 2].tolist()
        mine = self._drains_of(node)
        begun = [each for each in nodes.drains.values() if each.from_s <= now_s and not each.reserves]
        others = {gpu for each in begun if each.number not in mine for gpu in each.gpus}
        gpus = tuple(gpu for gpu in range(first, end) if gpu not in others)
        reason = f"health check: {text}"
        if not gpus or any(nodes.drains[number].reason == reason for number in mine):
            return []
        return [GpusDrained(self.new_drain(), gpus, now_s, now_s, FOREVER, reason, None, by_check=True)]

    def _drains_of(self, node: int) -> list[int]:
        """Return the numbers of drains of a node that its health check has begun."""
        cluster, drains = self.state().nodes.cluster, self.state().nodes.drains
        return [n for n, each in drains.items() if each.by_check and any(cluster.gpu_node.item(gpu) == node for gpu in each.gpus)]

    def _has_drains(self) -> bool:
        return any(drain.by_check for drain in self.state().nodes.drains.values())
