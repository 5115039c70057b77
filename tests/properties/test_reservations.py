"""Operators reserve GPUs in a hostile world. No job of a stranger is started on reserved GPUs, and no job that cannot be
suspended where it could not end before a window begins."""

from dataclasses import replace
from typing import Any

import pytest

from rota.core.plan import planner
from rota.core.plan.tactic import Tactics
from rota.core.state import windows
from rota.core.state.records import Drain
from rota.model.cluster import Cluster, Node
from rota.model.commands import Command, Launch, Resize, Resume
from rota.model.events import DrainCancelled, GpusDrained
from rota.model.tenants import Guarantee, Tenants
from rota.model.units import FOREVER
from rota.placers.packed import Packed
from rota.placers.random import Random
from rota.placers.spread import Spread
from rota.policies.fifo import Fifo
from rota.policies.las import Las
from rota.policies.queues import QueueMemory
from rota.policies.srsf import Srsf
from rota.policies.tiresias import Tiresias
from rota.sim.chaos import Broken, Chaos, Faults
from rota.sim.chaos_jobs import mixed_jobs
from rota.tactics.defragment import Defragment
from rota.tactics.grow import Grow
from rota.tactics.migrate import Migrate
from rota.tactics.pack import Pack
from tests.packing import Crowded, Evenly, pairs
from tests.properties.test_chaos import HOSTILE_SETTINGS, SHARING

FLOOR = Cluster.of([Node("a", "V100", 4, host_gib=16.0), Node("b", "V100", 4), Node("c", "V100", 8, host_gib=8.0)])
POLICIES = (Tiresias(thresholds=(40.0, 100.0)), Fifo(backfill=True), Las(quantum_seconds=15.0), Srsf())
OWNERS = (("vision", "ana"), ("vision/scans", "ben"), ("speech", "ana"), (None, ""))
TENANTS = Tenants(
    weights={"vision": 2.0, "vision/scans": 1.0, "speech": 1.0},
    guarantees={"vision": Guarantee(8), "speech": Guarantee(4)},
    user_caps={"speech": 6.0},
)
LIMITS = (None, None, 150.0, 900.0)


class Reserved(Chaos):
    """A world in which operators reserve GPUs, plan maintenance and end both, every few seconds."""

    def __init__(self, seed: int, *, sharing: bool = False, mixture: dict[str, Any] | None = None, **options: Any) -> None:
        """`sharing`: pairs of jobs share GPUs. `mixture`: kinds of jobs, of `mixed_jobs`."""
        jobs = [
            replace(
                job,
                saves=(None, True, False)[number % 3],
                tenant=OWNERS[number % 4][0],
                user=OWNERS[number % 4][1],
                max_run_seconds=LIMITS[number // 3 % 4],
            )
            for number, job in enumerate(mixed_jobs(25, seed, 4, **(mixture or {})))
        ]
        if sharing:
            options |= {"settings": SHARING, "rates": pairs(0.8)}
        policy = (Crowded(), Evenly())[seed % 2] if sharing else POLICIES[seed % 4]
        placer = (Packed(), Spread(), Random())[seed // 2 % 3]
        super().__init__(FLOOR, jobs, policy, placer, seed=seed, memory_types=(QueueMemory,), **options)
        self.seen: set[tuple[int, int]] = set()
        self.had: dict[int, set[int]] = {}
        """GPUs with which each job was last launched or resized."""
        self._recur(1 / 15, self._reserve)

    def _reserve(self) -> None:
        now_s, dice = self.now_s, self.dice
        first = dice.choice((0, 4, 8, 12))
        gpus = tuple(range(first, first + dice.randint(1, 4)))
        from_s = now_s + dice.choice((0.0, 0.0, 25.0, 400.0))
        number = self.core.state.nodes.last_drain + 1
        tenants, users = dice.choice(
            ((("vision",), None), (("speech",), None), (None, ("ana",)), (("vision",), ("ana",)), (None, None))
        )
        event = GpusDrained(
            number, gpus, now_s, from_s, from_s + dice.uniform(10.0, 90.0), None, "ana", tenants=tenants, users=users
        )
        self._count("reservations" if tenants or users else "drains")
        self.tell([event, event] if dice.random() < 0.8 else [DrainCancelled(number - 1, now_s)])

    def recover(self) -> None:
        """Recover. A command of the step that was lost is sent later, and was decided before."""
        super().recover()
        for flight in self.core.state.jobs.in_flight.values():
            self._note(flight.command)

    def _note(self, command: Command) -> set[int]:
        """Return the GPUs that a job gets by a command that is new."""
        if not isinstance(command, Launch | Resize | Resume) or (command.job, command.sequence) in self.seen:
            return set()
        self.seen.add((command.job, command.sequence))
        if isinstance(command, Resume):
            return set(self.had[command.job])
        before = self.had.get(command.job, set()) if isinstance(command, Resize) else set()
        self.had[command.job] = set(command.gpus.tolist())
        return self.had[command.job] - before

    def _carry_out(self, command: Command) -> None:
        gpus = self._note(command)
        for window in self.core.state.nodes.drains.values() if gpus else ():
            assert isinstance(command, Launch | Resize | Resume)
            if not gpus.isdisjoint(window.gpus):
                self._check(command.job, window)
        super()._carry_out(command)

    def _check(self, job: int, window: Drain) -> None:
        state, spec = self.core.state, self.specs[job]
        mine = any(((spec.tenant or "") + "/").startswith(f"{each}/") for each in window.tenants or ())
        if mine or spec.user in (window.users or ()):
            return
        reserves = window.tenants is not None or window.users is not None
        if window.from_s <= self.now_s:
            if reserves:
                raise Broken(f"job {job} of {spec.tenant or 'no tenant'} was started on GPUs of reservation {window.number}")
            return
        row, table = state.jobs.row[job], state.jobs.table
        if table.saves[row] or (reserves and spec.can_park):
            return
        longest = FOREVER if spec.max_run_seconds is None else spec.max_run_seconds - table.run_seconds[row]
        if self.now_s + longest > window.from_s:
            raise Broken(f"job {job} can't end before window {window.number} begins")

    def _check_ends(self) -> None:
        gone = self.known - self.core.state.jobs.row.keys()
        self.cancelled |= {job for job in gone if self.specs[job].max_run_seconds is not None}
        super()._check_ends()


@pytest.mark.parametrize("seed", range(6))
def test_no_stranger_is_started_on_reserved_gpus_and_no_job_where_it_cannot_end(seed: int) -> None:
    chaos = Reserved(seed, check_every=5).run(200_000)
    assert not chaos.core.state.jobs.row and not chaos.gpu_owner
    assert chaos.counts["reservations"] > 3 and len(chaos.seen) > 20


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("sharing", "mixture"),
    [(False, {"parts": True}), (True, {"parts": True}), (False, {"elastic": True}), (True, {"elastic": True})],
)
def test_nor_where_jobs_share_gpus_or_change_their_sizes(seed: int, sharing: bool, mixture: dict[str, Any]) -> None:
    faults = Faults(node_join=1 / 60, node_leave=1 / 90, node_drain=1 / 60)
    chaos = Reserved(seed, sharing=sharing, mixture=mixture, faults=faults, check_every=5).run(200_000)
    assert not chaos.core.state.jobs.row and not chaos.gpu_owner
    assert chaos.counts["reservations"] > 3 and len(chaos.seen) > 20


@pytest.mark.parametrize("seed", range(6))
def test_nor_by_tactics_or_within_a_guarantee(seed: int) -> None:
    tactics = (
        (Grow(idle_seconds=5.0),),
        (Pack(settle_seconds=5.0),),
        (Defragment(rest_seconds=20.0), Migrate(rest_seconds=20.0)),
    )
    chaos = Reserved(
        seed,
        mixture={"elastic": seed % 3 == 0},
        settings=replace(HOSTILE_SETTINGS, wait_for_locality=seed % 3 == 2, tactics=Tactics(tactics[seed % 3])),
        tenants=TENANTS if seed < 3 else None,
        check_every=5,
    ).run(200_000)
    assert not chaos.core.state.jobs.row and not chaos.gpu_owner
    assert chaos.counts["reservations"] > 3 and len(chaos.seen) > 20


def test_the_checker_notices_a_reservation_that_is_not_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "is_for", lambda state, window, job: True)
    with pytest.raises(Broken, match="was started on GPUs of reservation"):
        for seed in range(8):
            Reserved(seed).run(200_000)


def test_the_checker_notices_jobs_that_cannot_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "ends_s", lambda state, job: state.now_s)
    with pytest.raises(Broken, match="can't end before"):
        for seed in range(8):
            Reserved(seed).run(200_000)


def test_no_plan_leans_on_the_last_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fill and the placer already heed windows, so that the check of finished plans changes nothing."""
    monkeypatch.setattr(planner, "permitted", lambda draft, access, changes: changes)
    for seed in range(2):
        chaos = Reserved(seed, check_every=5).run(200_000)
        assert chaos.counts["reservations"] > 3
