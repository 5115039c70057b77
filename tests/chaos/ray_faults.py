"""Faults for a real Ray cluster, at seeded moments. Each returns when it has happened and the cluster is complete again."""

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tests.chaos.ray_crowd import ACCELERATOR, GPUS, NODES, Crowd, Part, RaySite

PATIENCE = 300.0
MOMENT_SECONDS = 1.5
"""A fault comes within so long after all was well."""
AWAY_SECONDS = 5.0
"""For so long, at most, all nodes, the head or PostgreSQL are away."""


def until(condition: Callable[[], bool], what: str) -> None:
    """As `harness.until`, and easier on a machine that has a cluster to run."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {PATIENCE:.0f} s"
        time.sleep(0.2)


class Fault(NamedTuple):
    """What happened."""

    kind: str
    target: str
    at_s: float
    hit: tuple[int, ...]
    """Jobs that it may stop."""
    well_s: float = 0.0
    """When all nodes were there again and all jobs made steps."""


class Faults:
    """Every kind is a method that says what happened to what, when, and which jobs it hit."""

    def __init__(self, site: RaySite, crowd: Crowd, seed: int, lease_seconds: float) -> None:
        self.site, self.crowd, self._seed, self._lease = site, crowd, seed, lease_seconds
        self._draw = random.Random(seed)
        self._kinds: list[str] = []
        self.kinds: dict[str, Callable[[], Fault]] = {
            "raylet-killed": self._raylet_killed,
            "agent-killed": self._agent_killed,
            "rank-killed": self._rank_killed,
            "supervisor-killed": self._supervisor_killed,
            "supervisor-stopped": lambda: self._supervisor_killed(signal.SIGSTOP),
            "daemon-killed": self._daemon_killed,
            "head-restarted": self._head_restarted,
            "journal-restarted": self._journal_restarted,
            "node-paused": lambda: self._stopped(self._short()),
            "partition-short": lambda: self._cut_off(self._short()),
            "all-away": self._all_away,
            "node-frozen": lambda: self._stopped(None),
            "partition-long": lambda: self._cut_off(None),
            "machine-lost": self._machine_lost,
            "boot-file-lost": self._boot_file_lost,
            "two-of-one-name": self._two_of_one_name,
        }
        if site.cluster.network is None:
            del self.kinds["partition-short"], self.kinds["partition-long"]
        if site.server is None:
            del self.kinds["journal-restarted"]

    def strike(self, number: int, only: str = "") -> Fault:
        """The next fault: each kind as often as the others. What is drawn depends on the seed and its number alone."""
        self._draw = random.Random(f"{self._seed} {number}")
        if not self._kinds:
            wanted = [kind for kind in self.kinds if any(word in kind for word in only.split(","))]
            self._kinds = self._draw.sample(wanted, len(wanted))
        kind = self._kinds.pop()
        time.sleep(self._draw.uniform(0.0, MOMENT_SECONDS))
        fault = self.kinds[kind]()._replace(kind=kind)
        self.until_well()
        return fault._replace(well_s=time.time())

    # How things are.

    def until_well(self) -> None:
        """Ray and an agent are on all nodes, the scheduler hears of all of them, and all jobs make steps."""
        until(self._all_there, "all nodes are there")
        from_s = time.time()
        until(lambda: self._all_step(from_s), "all jobs make steps")

    def _all_there(self) -> bool:
        """Starts Ray where it has ended: by the fault, because the head took it for dead, or because it came up too early."""
        cluster = self.site.cluster
        for name in NODES:
            if not cluster.runs(name):
                cluster.reap(name)
                cluster.start(name, GPUS, ACCELERATOR)
        return all(cluster.agent(name) is not None for name in NODES) and self.site.up_nodes() == set(NODES)

    def _all_step(self, from_s: float) -> bool:
        self.crowd.keep_busy()
        there = self._all_there()
        return self._jobs_step(from_s) and there

    def _jobs_step(self, from_s: float) -> bool:
        rows = self.site.rows()
        steps = (self.crowd.steps(job)[-1:] for job, row in rows.items() if not row.ended)
        return all(made and made[0] > from_s for made in steps)

    def _part(self, gangs_only: bool = False) -> Part:
        """Some process of some job that runs now."""
        found: list[Part] = []

        def some() -> bool:
            self.crowd.keep_busy()
            running = {job for job, row in self.site.rows().items() if row.phase == "running"}
            mine = [part for part in self.crowd.parts() if part.job in running]
            ranks = {job: {part.rank for part in mine if part.job == job} for job in running}
            found[:] = [part for part in mine if not gangs_only or len(ranks[part.job]) > 1]
            return bool(found)

        until(some, "a job runs")
        return self._draw.choice(sorted(found))

    def _on(self, nodes: Iterable[str]) -> tuple[int, ...]:
        """Jobs with a part on one of these."""
        return tuple(sorted({part.job for part in self.crowd.parts() if part.node in set(nodes)}))

    def _short(self) -> float:
        """Less than what is left of any lease: they are renewed at half time."""
        return self._draw.uniform(0.05, 0.35) * self._lease

    def _until_anew(self, jobs: Iterable[int], at_s: float) -> None:
        """Until these have begun again, or ended. If a node is away, the others have just enough GPUs for them."""

        def anew() -> bool:
            rows = self.site.rows()
            return all(self.crowd.began(job, at_s) or rows[job].ended for job in jobs)

        until(anew, f"jobs {jobs} have begun again")

    # Processes.

    def _raylet_killed(self) -> Fault:
        node = self._part().node
        os.kill(self.site.cluster.raylet(node), signal.SIGKILL)
        fault = Fault("", node, time.time(), self._on([node]))
        until(lambda: not self.site.cluster.runs(node), "Ray has ended on it")
        return fault

    def _agent_killed(self) -> Fault:
        node = self._part().node
        agent = self.site.cluster.agent(node)
        assert agent is not None, f"{node} has no agent"
        os.kill(agent, signal.SIGKILL)
        return Fault("", node, time.time(), self._on([node]))

    def _boot_file_lost(self) -> Fault:
        """The number of its boot is gone from its disk, in one place or in both, and its agent is killed."""
        node, both = self._part().node, self._draw.random() < 0.5
        for name in ("boot.json", "run/boot.json") if both else ("boot.json",):
            (self.site.nodes / node / name).unlink()
        agent = self.site.cluster.agent(node)
        assert agent is not None, f"{node} has no agent"
        os.kill(agent, signal.SIGKILL)
        fault = Fault("", f"{node}{', both files' if both else ''}", time.time(), self._on([node]))
        until((self.site.nodes / node / "boot.json").exists, "its next agent has a number again")
        return fault

    def _two_of_one_name(self) -> Fault:
        """A second Ray node of this machine has the name of a node that runs a job; then one of the two is taken away."""
        cluster, node = self.site.cluster, self._part().node
        twin, first_goes = f"{node}-twin", self._draw.random() < 0.5
        at_s, hit = time.time(), self._on([node])
        told = self.site.said().count(f"two Ray nodes are named {node}")
        cluster.start(twin, GPUS, ACCELERATOR, name=node)
        try:
            cluster.wait_for(twin)
            until(lambda: self.site.said().count(f"two Ray nodes are named {node}") > told, "the operator is told")
            assert cluster.agent(twin) is None, "the first has the name, and goes on"
            if first_goes:
                cluster.kill(node)
                until(lambda: cluster.agent(twin) is not None, "the second has the name now")
                until(lambda: self.site.up_nodes() == set(NODES), "the scheduler uses it")
                from_s = time.time()
                until(lambda: self._jobs_step(from_s), "all jobs make steps")
        finally:
            cluster.kill(twin)
        return Fault("", f"{node}, {'the first' if first_goes else 'the second'} goes", at_s, hit)

    def _rank_killed(self) -> Fault:
        return self._kill_part(lambda part: part.pid, gangs_only=True)

    def _supervisor_killed(self, number: signal.Signals = signal.SIGKILL) -> Fault:
        """Or stopped for good: its agent ends it with its lease."""

        def supervisor(part: Part) -> int | None:
            found = [pid for pid in self.site.cluster.machine(part.node) if _supervises(pid, part)]
            return found[0] if found else None

        return self._kill_part(supervisor, number=number)

    def _kill_part(
        self, process: Callable[[Part], int | None], *, gangs_only: bool = False, number: signal.Signals = signal.SIGKILL
    ) -> Fault:
        """Of some rank. Its whole job dies with it, and begins again."""
        while True:
            part = self._part(gangs_only)
            pid = process(part)
            with contextlib.suppress(ProcessLookupError):  # it has come to its end meanwhile
                if pid is not None:
                    os.kill(pid, number)
                    break
        fault = Fault("", f"rank {part.rank} on {part.node}", time.time(), (part.job,))
        self._until_anew(fault.hit, fault.at_s)
        return fault

    def _daemon_killed(self) -> Fault:
        self._part()
        self.site.kill()
        fault = Fault("", "daemon", time.time(), self._on(NODES))
        time.sleep(self._draw.uniform(0.0, 1.0))
        self.site.up()
        return fault

    def _head_restarted(self) -> Fault:
        self._part()
        at_s, hit = time.time(), self._on(NODES)
        self.site.cluster.restart_gcs(self._draw.uniform(0.0, AWAY_SECONDS))
        return Fault("", "gcs", at_s, hit)

    def _journal_restarted(self) -> Fault:
        self._part()
        server, at_s, hit = self.site.server, time.time(), self._on(NODES)
        assert server is not None
        server.crash()
        time.sleep(self._draw.uniform(0.0, AWAY_SECONDS))
        server.start()
        return Fault("", "postgres", at_s, hit)

    # Machines.

    def _machine_lost(self) -> Fault:
        node, wiped = self._part().node, self._draw.random() < 0.5
        hit = self._on([node])
        self.site.cluster.crash(node)
        fault = Fault("", f"{node}{', wiped' if wiped else ''}", time.time(), hit)
        if wiped:
            shutil.rmtree(self.site.nodes / node)
        self._until_anew(hit, fault.at_s)
        return fault

    def _all_away(self) -> Fault:
        self._part()
        hit = self._on(NODES)
        for node in NODES:
            self.site.cluster.crash(node)
        fault = Fault("", "all", time.time(), hit)
        time.sleep(self._draw.uniform(0.0, AWAY_SECONDS))
        return fault

    def _stopped(self, seconds: float | None) -> Fault:
        """None: until its jobs run elsewhere."""
        node = self._part().node
        hit = self._on([node])
        stopped: list[int] = []
        while more := [pid for pid in self.site.cluster.machine(node) if pid not in stopped]:
            for pid in more:
                stopped.append(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
        at_s = time.time()
        try:
            if seconds is None:
                self._until_anew(hit, at_s)
            else:
                time.sleep(seconds)
        finally:
            for pid in stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        if seconds is None:
            # Its Ray was taken for dead, and notices that now.
            until(lambda: not self.site.cluster.runs(node), f"Ray has ended on {node}")
        return Fault("", node, at_s, hit)

    def _cut_off(self, seconds: float | None) -> Fault:
        """None: until its jobs run elsewhere."""
        network, node = self.site.cluster.network, self._part().node
        assert network is not None
        hit = self._on([node])
        network.cut(node)
        at_s = time.time()
        try:
            if seconds is None:
                self._until_anew(hit, at_s)
            else:
                time.sleep(seconds)
        finally:
            network.mend(node)
        return Fault("", node, at_s, hit)


def _supervises(pid: int, part: Part) -> bool:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
        words = file.read().decode(errors="replace").split("\0")
        return "rota.agent.supervisor" in words and f"/run/{part.job}/{part.attempt}" in " ".join(words)
    return False
