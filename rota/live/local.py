"""The local driver: one machine, real processes. Commands go to the machine's supervisors, what they did comes back as events.

It keeps nothing that the journal and the machine's own files could not tell again.
"""

import secrets
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rota.agent import rules
from rota.agent.constants import ENDED, PARKED, RUNNING, SUSPENDED
from rota.agent.disk import write_whole
from rota.agent.gpu_readings import GpuWatch, Readings
from rota.agent.gpus import Gpu
from rota.agent.log import LIMIT_BYTES, LogPiece, log_end, read_log
from rota.agent.machine import Machine
from rota.agent.mps import mps_environment
from rota.agent.orders import IncarnationStatus, Order, held
from rota.agent.processes import boot_s, life_of
from rota.live.cluster_changes import made_up_devices
from rota.live.driver import DriverCommand, DriverContext
from rota.live.gpu_use import gpu_use, holders
from rota.live.starts import Starts
from rota.live.step_rates import StepRates
from rota.live.where import where_text
from rota.model.cluster import Cluster
from rota.model.commands import Kill, Launch, Renew, Resize, Resume, Suspend, SuspendKind
from rota.model.events import Exited, External, Outcome, Progressed, Started, Suspended
from rota.park.environment import parking_environment
from rota.park.facts import parking_facts
from rota.park.ways import ParkingFacts, how_to_park
from rota.wire.submitted import SubmittedJob

PORTS = 20_000, 12_000
"""First port and how many: where the processes of a gang may meet."""


HOME_ID = "home-id"
READ_SECONDS = 1.0
"""Who asks how the GPUs are waits so long for an answer at most."""
PROGRESS_EVERY_SECONDS = 5.0
STRAY_SEQUENCE = 1 << 40
"""Newer than any command of a scheduler."""


class Local:
    """A driver (`rota/live/driver.py`) that runs jobs on this machine."""

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
        self._devices = made_up_devices(cluster)
        self._index: dict[str, int] = {}
        """Of real GPUs: what they are called by CUDA, by name."""
        if gpus is not None:
            self._devices = tuple(tuple(gpu.uuid for gpu in each) for each in gpus)
            self._index = {gpu.uuid: gpu.index for each in gpus for gpu in each}
        self._watch: GpuWatch | None = None
        """Of real GPUs."""
        self._home_id = ""
        self.machine: Machine
        self._context: DriverContext
        self._started: dict[tuple[int, int], float] = {}
        """Incarnations that were told to have started, and when they did."""
        self._sequences: dict[tuple[int, int], int] = {}
        """And as which command says."""
        self._parked: dict[tuple[int, int], float] = {}
        """Incarnations that were told to be parked, and since when they are."""
        self._starts = Starts()
        self._step_rates = StepRates()
        self._running: dict[int, IncarnationStatus] = {}
        self._reported: dict[int, float] = {}
        self._progress_s = 0.0
        self._carry_out: dict[type, Callable[[Any], None]] = {
            Launch: self._launch,
            Suspend: self._suspend,
            Kill: self._kill,
            Renew: self._renew,
            Resume: self._resume,
            Resize: self._resize,
        }

    def machines(self) -> Cluster:
        return self.cluster

    def devices(self) -> Sequence[tuple[str, ...]]:
        return self._devices

    def open(self, context: DriverContext) -> None:
        self._context = context
        (self.home / "logs").mkdir(parents=True, exist_ok=True)
        self._home_id = home_id(self.home)
        self.machine = Machine(self.home, context.wake)
        self._watch = GpuWatch() if self._index else None

    def close(self) -> None:
        self.machine.close()
        if self._watch is not None:
            self._watch.close()

    # Commands ----------------------------------------------------------------------------------------------------

    def carry_out(self, commands: Sequence[DriverCommand]) -> list[External]:
        events: list[External] = []
        for command in commands:
            self._carry_out[type(command)](command)
            reply = self.machine.answer(command.job, command.incarnation)
            if reply is not None:
                events.append(Exited(command.job, command.incarnation, self._context.clock(), Outcome(reply.outcome), 0.0))
        return events

    def _launch(self, command: Launch) -> None:
        job = self._context.submitted(command.job)
        self.machine.launch(
            Order(
                job=command.job,
                incarnation=command.incarnation,
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
                log_bytes=self._log_bytes,
                clock_origin_s=self._context.clock() - boot_s(),
            )
        )

    def _suspend(self, command: Suspend) -> None:
        ask = self.machine.park if command.kind is SuspendKind.PARK else self.machine.suspend
        ask(command.job, command.incarnation, command.sequence)

    def _kill(self, command: Kill) -> None:
        self.machine.kill(command.job, command.incarnation, command.sequence)

    def _renew(self, command: Renew) -> None:
        self.machine.renew(command.job, command.incarnation, max(command.lease_s - self._context.clock(), 0.0))

    def _resize(self, command: Resize) -> None:
        """Of a job that changes its batch size by itself: its GPUs stay (see `requests.scheduler_spec`)."""
        self.machine.resize(command.job, command.incarnation, command.sequence, command.batch_size)

    def _resume(self, command: Resume) -> None:
        lease_seconds = max(command.lease_s - self._context.clock(), 0.0)
        self.machine.resume(command.job, command.incarnation, command.sequence, lease_seconds)

    def how_parked(self, job: SubmittedJob) -> tuple[str, str]:
        return how_to_park(self._parking_facts(job))

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
        events: list[External] = []
        for status in self.machine.poll():
            events.extend(self._events(status))
        for status in [status for status in self._running.values() if (status.job, status.incarnation) not in self._started]:
            events.extend(self._start(status))  # nothing changed, but it has taken too long
        self._measure()
        if self._context.clock() >= self._progress_s + PROGRESS_EVERY_SECONDS:
            self._progress_s = self._context.clock()
            measured = self._step_rates.measured(self._progress_s)
            events.extend([measured] if measured is not None else [])
            events.extend(self._progress(self._running.values()))
        return events

    def _measure(self) -> None:
        inventory, readings = self.machine.inventory(), self._watch.latest() if self._watch is not None else {}
        uuids = {index: uuid for uuid, index in self._index.items()}
        uses = gpu_use(holders(inventory, self.machine.variables, uuids), readings, life_of) if readings else {}
        self._step_rates.look(inventory, self._started, uses)

    def _events(self, status: IncarnationStatus) -> list[External]:
        key = (status.job, status.incarnation)
        if status.state == PARKED:
            return self._park(status)
        events = self._start(status) if key not in self._started else self._changed(status)
        if status.state == ENDED:
            self._stopped(status)
            events.append(self._end(status))
        elif status.state == RUNNING:
            self._running[status.job] = status
        return events

    def _stopped(self, status: IncarnationStatus) -> None:
        self._running.pop(status.job, None)
        self._reported.pop(status.job, None)

    def _start(self, status: IncarnationStatus) -> list[External]:
        """That it has started, once it has. If its first step made it so, also where it is: that step is not of its pace."""
        began_s = self._starts.began_s(status, self._context.clock())
        if began_s is None:
            return []
        began_s = max(began_s, status.resumed_s or began_s)
        self._started[status.job, status.incarnation] = began_s
        self._sequences[status.job, status.incarnation] = status.start_sequence
        started = Started(status.job, status.incarnation, status.start_sequence, began_s)
        return [started, *(self._progress([status]) if status.state == RUNNING else [])]

    def _changed(self, status: IncarnationStatus) -> list[External]:
        """That it goes on, with another size or after it was parked, once. Its pace is measured anew from there."""
        key = (status.job, status.incarnation)
        if status.start_sequence == self._sequences.get(key) or status.state != RUNNING:
            return []
        woken = self._parked.pop(key, None) is not None
        self._sequences[key] = status.start_sequence
        self._started[key] = status.resumed_s if woken and status.resumed_s is not None else self._context.clock()
        return [Started(status.job, status.incarnation, status.start_sequence, self._started[key])]

    def _park(self, status: IncarnationStatus) -> list[External]:
        """That it is parked, once. It has started: no job is suspended before that."""
        key, at_s = (status.job, status.incarnation), status.parked_s or 0.0
        self._stopped(status)
        self._started.setdefault(key, status.began_s or at_s)
        self._sequences[key] = status.start_sequence
        if self._parked.get(key) == at_s:
            return []
        self._parked[key] = at_s
        done = status.steps_done if self._tells(status) else status.steps_saved + _worked_seconds(status, at_s)
        return [Suspended(status.job, status.incarnation, status.sequence, at_s, SuspendKind.PARK, done, gib=status.parked_gib)]

    def _end(self, status: IncarnationStatus) -> External:
        at_s = status.ended_s if status.ended_s is not None else self._context.clock()
        saved, reply = self._saved(status), rules.describe(held(status), status.incarnation)
        if reply.kind == SUSPENDED:
            return Suspended(status.job, status.incarnation, reply.sequence, at_s, SuspendKind.CHECKPOINT, saved)
        done = status.steps_done if status.stepped_s is not None else None
        outcome = Outcome(reply.outcome)
        return Exited(status.job, status.incarnation, at_s, outcome, saved, steps_done=done, stepped_s=status.stepped_s)

    def _saved(self, status: IncarnationStatus) -> float:
        """A job that tells no steps has one per second, like every job that was not profiled."""
        if not self._tells(status) and status.exit_code in (0, 75):
            return status.steps_saved + _worked_seconds(status, status.ended_s or 0.0)
        return status.steps_saved

    def _tells(self, status: IncarnationStatus) -> bool:
        return status.tells_steps or bool(self._context.submitted(status.job).progress)

    def _progress(self, running: Iterable[IncarnationStatus]) -> list[External]:
        """Where the jobs are that tell their steps: one batch, of those that have started and moved."""
        moved = [
            status
            for status in running
            if (status.job, status.incarnation) in self._started
            and self._tells(status)
            and status.steps_done != self._reported.get(status.job, 0.0)
        ]
        if not moved:
            return []
        self._reported |= {status.job: status.steps_done for status in moved}
        return [
            Progressed(
                np.array([status.job for status in moved], dtype=np.int64),
                np.array([status.incarnation for status in moved], dtype=np.int64),
                np.array([status.steps_done for status in moved], dtype=np.float64),
                np.array([status.steps_saved for status in moved], dtype=np.float64),
                self._context.clock(),
            )
        ]

    def acknowledge(self) -> None:
        """What has ended and is in the journal needs no files any more."""
        for status in self.machine.inventory():
            if status.state == ENDED:
                self.machine.forget(status.job, status.incarnation)
                self._started.pop((status.job, status.incarnation), None)
                self._sequences.pop((status.job, status.incarnation), None)
                self._parked.pop((status.job, status.incarnation), None)

    def end_strays(self, wanted: Callable[[int, int], bool]) -> None:
        """Processes that the scheduler knows nothing of: a journal that was set back does not say what they are."""
        for status in self.machine.inventory():
            if status.state != ENDED and not wanted(status.job, status.incarnation):
                self.machine.kill(status.job, status.incarnation, STRAY_SEQUENCE)

    # Reading -----------------------------------------------------------------------------------------------------

    def inventory(self) -> list[IncarnationStatus]:
        return self.machine.inventory()

    def running(self) -> Mapping[int, IncarnationStatus]:
        return self._running

    def readings(self) -> Readings:
        return self._watch.latest(wait_seconds=READ_SECONDS) if self._watch is not None else {}

    def read_log(self, job: int, offset: int, limit: int) -> LogPiece:
        return read_log(self._log(job), offset, limit)

    def log_end(self, job: int) -> int:
        return log_end(self._log(job))

    def _log(self, job: int) -> Path:
        return self.home / "logs" / f"{job}.log"

    def _environment(self, command: Launch, job: SubmittedJob) -> dict[str, str]:
        """What a job sees: its own variables, then ours. Nothing of the scheduler's own environment."""
        first, count = PORTS
        gpus = command.gpus.tolist()
        numbers = [self._index.get(self._context.device(gpu), gpu) for gpu in gpus]
        env = {
            **job.env,
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": ",".join(map(str, numbers)),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(first + (command.job * 8 + command.incarnation) % count),
            "NNODES": "1",
            "NODE_RANK": "0",
            "PYTHONUNBUFFERED": "1",
            "ROTA_JOB_ID": str(command.job),
            "ROTA_JOB_KEY": f"{self._home_id}-{command.job}",
            "ROTA_JOB_NAME": job.name,
            "ROTA_GPUS": str(len(gpus)),
            **({"ROTA_BATCH_SIZE": str(command.batch_size)} if command.batch_size else {}),
            "ROTA_INCARNATION": str(command.incarnation),
            "ROTA_RESTARTS": str(command.incarnation - 1),
            "ROTA_CHECKPOINT_DIR": job.checkpoint_dir,
            "ROTA_FROM_STEP": f"{command.from_step:g}",
            "ROTA_HOST": socket.gethostname(),
            "ROTA_LIFE": secrets.token_hex(12),
        }
        env |= mps_environment(self._mps, numbers, job.gpu_gib)
        if len(gpus) == 1:
            env |= {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"}
        return env | parking_environment(self._parking_facts(job), env)


def _worked_seconds(status: IncarnationStatus, until_s: float) -> float:
    """From its start to this instant, without the time that it slept."""
    return max(until_s - (status.started_s or 0.0) - status.parked_seconds, 0.0)


def home_id(home: Path) -> str:
    """A name that no other home has, made when it is first asked for. Jobs of two homes may share a working folder and a number,
    and must not find each other's checkpoints."""
    path = home / HOME_ID
    if not path.exists():
        write_whole(home, HOME_ID, secrets.token_hex(4).encode(), durable=True)
    return path.read_text(encoding="ascii").strip()
