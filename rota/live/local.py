"""The local driver: one machine, real processes. Commands go to the machine's supervisors, what they did comes back as events.

It keeps nothing that the journal and the machine's own files could not tell again.
"""

import secrets
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rota.agent.constants import ENDED, PARK_WAY
from rota.agent.gpu_readings import GpuWatch, Readings
from rota.agent.gpu_use import AttemptKey, GpuUse, gpu_use, holders
from rota.agent.gpus import Gpu
from rota.agent.log import LIMIT_BYTES, LogPiece, log_end, read_log
from rota.agent.machine import AttemptManager
from rota.agent.mps import mps_environment
from rota.agent.orders import AttemptStatus, LaunchOrder
from rota.agent.other_programs import OtherPrograms
from rota.agent.processes import boot_s, life_of
from rota.folders import make_folder
from rota.live.attempt_events import AttemptEvents
from rota.live.cluster_changes import pretend_devices
from rota.live.driver import DriverCommand, DriverContext
from rota.live.home_id import home_id
from rota.live.job_environment import GangPlace, job_environment, size_variables
from rota.live.placement_text import where_text
from rota.live.reported_steps import within_requested
from rota.live.step_rates import StepRates
from rota.model.cluster import Cluster
from rota.model.commands import Kill, Launch, Renew, Resize, Resume, Suspend, SuspendKind
from rota.model.events import Exited, External, GpusTaken, Outcome
from rota.model.units import FOREVER, Ints
from rota.park.facts import parking_facts
from rota.park.park_environment import parking_environment
from rota.park.park_method import PRELOAD, ParkingFacts, choose_park_method
from rota.wire.submitted import SubmittedJob

READ_SECONDS = 1.0
"""Who asks how the GPUs are waits so long for an answer at most."""
PROGRESS_EVERY_SECONDS = 5.0
OTHERS_EVERY_SECONDS = 5.0
"""Between two looks for other programs on real GPUs while no job runs."""
STRAY_SEQUENCE = 1 << 40
"""Newer than any command of a scheduler."""


class Local:
    """A driver (`rota/live/driver.py`) that runs jobs on this machine."""

    nodes_may_be_silent = False
    look_every_seconds = FOREVER
    starts_anew = True

    def __init__(
        self,
        home: Path,
        cluster: Cluster,
        *,
        lease_grace_seconds: float,
        gpus: Sequence[Sequence[Gpu]] | None = None,
        log_bytes: int = LIMIT_BYTES,
        mps: Path | None = None,
    ) -> None:
        """`gpus`: the real ones of each node; None: they are made up. `log_bytes`: what the log of a job may take.
        `mps`: where MPS has its control daemon, if jobs run under that."""
        self._log_bytes, self._mps = log_bytes, mps
        self.home, self.cluster = home, cluster
        self._lease_grace = lease_grace_seconds
        self._devices = pretend_devices(cluster)
        self._index: dict[str, int] = {}
        """Of real GPUs: what they are called by CUDA, by name."""
        if gpus is not None:
            self._devices = tuple(tuple(gpu.uuid for gpu in each) for each in gpus)
            self._index = {gpu.uuid: gpu.index for each in gpus for gpu in each}
            self.look_every_seconds = OTHERS_EVERY_SECONDS
        self._others = OtherPrograms(home)
        self._taken: dict[int, str] = {}
        """GPUs that other programs use, by number, as was told last."""
        self._looked = False
        self._watch: GpuWatch | None = None
        """Of real GPUs."""
        self._home_id = ""
        self.machine: AttemptManager
        self._context: DriverContext
        self._parts: AttemptEvents
        self._step_rates = StepRates()
        self._uses: Mapping[AttemptKey, GpuUse] = {}
        self._progress_s = 0.0
        self._carry_out: dict[type, Callable[[Any], None]] = {
            Launch: self._launch,
            Suspend: self._suspend,
            Kill: self._kill,
            Renew: self._renew,
            Resume: self._resume,
            Resize: self._resize,
        }

    def discover_cluster(self) -> Cluster:
        return self.cluster

    def devices(self) -> Sequence[tuple[str, ...]]:
        return self._devices

    @property
    def real_gpus(self) -> list[str]:
        """Their UUIDs."""
        return sorted(self._index)

    def open(self, context: DriverContext) -> None:
        self._context, self._parts = context, AttemptEvents(context, keeps_memory=self._stays_pinned)
        make_folder(self.home / "logs")
        self._home_id = home_id(self.home)
        self.machine = AttemptManager(self.home, context.wake)
        self._watch = GpuWatch() if self._index else None

    def _stays_pinned(self, status: AttemptStatus) -> bool:
        return self.machine.variables(status.job, status.attempt).get(PARK_WAY) == PRELOAD

    def close(self) -> None:
        if self._home_id:  # it was opened
            self.machine.close()
        if self._watch is not None:
            self._watch.close()

    # Commands ----------------------------------------------------------------------------------------------------

    def carry_out(self, commands: Sequence[DriverCommand]) -> list[External]:
        events: list[External] = []
        for command in commands:
            self._carry_out[type(command)](command)
            reply = self.machine.answer(command.job, command.attempt)
            if reply is not None:
                events.append(Exited(command.job, command.attempt, self._context.clock(), Outcome(reply.outcome), 0.0))
        return events

    def _launch(self, command: Launch) -> None:
        job = self._context.submitted(command.job)
        self.machine.launch(
            LaunchOrder(
                job=command.job,
                attempt=command.attempt,
                sequence=command.sequence,
                argv=job.argv,
                env=self._environment(command, job),
                workdir=job.workdir,
                log=self._log(command.job),
                gpus_text=where_text(self._context.cluster(), command.gpus),
                from_step=command.from_step,
                lease_seconds=max(command.lease_s - self._context.clock(), 0.0),
                grace_seconds=job.grace_seconds,
                lease_grace_seconds=min(job.grace_seconds, self._lease_grace),
                progress=job.progress or "",
                steps_total=job.steps,
                stays=not (job.saves or job.preemptible),
                log_bytes=self._log_bytes,
                clock_origin_s=self._context.clock() - boot_s(),
            )
        )

    def _suspend(self, command: Suspend) -> None:
        ask = self.machine.park if command.kind is SuspendKind.PARK else self.machine.suspend
        ask(command.job, command.attempt, command.sequence)

    def _kill(self, command: Kill) -> None:
        self.machine.kill(command.job, command.attempt, command.sequence)

    def _renew(self, command: Renew) -> None:
        self.machine.renew(command.job, command.attempt, max(command.lease_s - self._context.clock(), 0.0))

    def _resize(self, command: Resize) -> None:
        """A session of one process takes another batch size by itself. For other GPUs, or in several processes, it is started
        again."""
        numbers, key = self._numbers(command.gpus), (command.job, command.attempt)
        changed = size_variables(command, GangPlace(host=socket.gethostname(), gpus=numbers))
        if len(numbers) == 1 and self.machine.variables(*key).get("CUDA_VISIBLE_DEVICES") == changed["CUDA_VISIBLE_DEVICES"]:
            self.machine.resize(*key, command.sequence, command.batch_size)
            return
        changed |= mps_environment(self._mps, numbers, self._context.submitted(command.job).gpu_gib)
        text = where_text(self._context.cluster(), command.gpus)
        self.machine.resize(*key, command.sequence, command.batch_size, changed, text)

    def _numbers(self, gpus: Ints) -> list[int]:
        """As CUDA has them."""
        return [self._index.get(self._context.device(gpu), gpu) for gpu in gpus.tolist()]

    def _resume(self, command: Resume) -> None:
        lease_seconds = max(command.lease_s - self._context.clock(), 0.0)
        self.machine.resume(command.job, command.attempt, command.sequence, lease_seconds)

    def how_parked(self, job: SubmittedJob) -> tuple[str, str]:
        return choose_park_method(self._parking_facts(job))

    def _parking_facts(self, job: SubmittedJob) -> ParkingFacts:
        return parking_facts(
            job.argv,
            job.env,
            job.workdir,
            wanted=job.park,
            gpus=max((job.gpus, *job.gpu_counts)),
            real_gpus=bool(self._index),
            mps=self._mps is not None,
        )

    # Events ------------------------------------------------------------------------------------------------------

    def events(self) -> list[External]:
        """The machine's first poll tells everything, and the later ones what changed."""
        events = self._parts.take(self._within(self.machine.poll()))
        if self._watch is not None:
            events += self._look_at_gpus(self._watch)
        self._step_rates.look(self.inventory(), self._parts.started, self._uses)
        if self._context.clock() >= self._progress_s + PROGRESS_EVERY_SECONDS:
            self._progress_s = self._context.clock()
            measured = self._step_rates.measured(self._progress_s)
            events.extend([measured] if measured is not None else [])
            events.extend(self._parts.progress())
        return events

    def _look_at_gpus(self, watch: GpuWatch) -> list[External]:
        """How jobs use them, and which of them other programs use. The first look waits: no job starts before it is known."""
        readings = watch.latest(wait_seconds=0.0 if self._looked else READ_SECONDS)
        self._looked = True
        uuids = {index: uuid for uuid, index in self._index.items()}
        everyone = holders(self.machine.inventory(), self.machine.variables, uuids)
        self._uses = gpu_use(everyone, readings, life_of) if readings else {}
        if not readings:
            return []
        others = self._others.look(readings, {holder.life for holder in everyone if holder.life})
        return self._others_on(others)

    def _others_on(self, others: Mapping[str, str]) -> list[External]:
        """What other programs use, of the nodes for which that is not as it was."""
        cluster, before = self._context.cluster(), self._taken
        names = {gpu: self._context.device(gpu) for gpu in range(cluster.gpus)} if others or before else {}
        self._taken = {gpu: others[name] for gpu, name in names.items() if name in others}
        nodes = {cluster.gpu_node.item(gpu) for gpu, _ in self._taken.items() ^ before.items()}
        return [self._taken_on(node) for node in sorted(nodes)]

    def _taken_on(self, node: int) -> GpusTaken:
        of_node = self._context.cluster().gpu_node
        mine = {gpu: by for gpu, by in self._taken.items() if of_node.item(gpu) == node}
        return GpusTaken(node, tuple(mine), tuple(mine.values()), self._context.clock())

    def acknowledge(self) -> None:
        """What has ended and is in the journal needs no files any more."""
        for status in self.machine.inventory():
            if status.state == ENDED:
                self.machine.forget(status.job, status.attempt)
                self._parts.forget(status.job, status.attempt)

    def kill_unknown_attempts(self, wanted: Callable[[int, int], bool]) -> None:
        """Processes that the scheduler knows nothing of: a journal that was set back does not say what they are."""
        for status in self.machine.inventory():
            if status.state != ENDED and not wanted(status.job, status.attempt):
                self.machine.kill(status.job, status.attempt, STRAY_SEQUENCE)

    # Reading -----------------------------------------------------------------------------------------------------

    def inventory(self) -> list[AttemptStatus]:
        return self._within(self.machine.inventory())

    def _within(self, statuses: Iterable[AttemptStatus]) -> list[AttemptStatus]:
        return [within_requested(each, self._context.submitted) for each in statuses]

    def running(self) -> Mapping[int, AttemptStatus]:
        return self._parts.running

    def late_starts(self) -> Mapping[int, str]:
        return {}  # what this machine can't start has ended at once

    def readings(self) -> Readings:
        return self._watch.latest(wait_seconds=READ_SECONDS) if self._watch is not None else {}

    def read_log(self, job: int, offset: int, limit: int) -> LogPiece:
        return read_log(self._log(job), offset, limit)

    def log_end(self, job: int) -> int:
        return log_end(self._log(job))

    def _log(self, job: int) -> Path:
        return self.home / "logs" / f"{job}.log"

    def _environment(self, command: Launch, job: SubmittedJob) -> dict[str, str]:
        numbers = self._numbers(command.gpus)
        place = GangPlace(host=socket.gethostname(), gpus=numbers)
        env = job_environment(command, job, place, self._home_id, secrets.token_hex(12))
        env |= mps_environment(self._mps, numbers, job.gpu_gib)
        return env | parking_environment(self._parking_facts(job), env)
