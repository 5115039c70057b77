"""The local driver: one machine, real processes. Commands go to the machine's supervisors, what they did comes back as events.

It keeps nothing that the journal and the machine's own files could not tell again.
"""

import secrets
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rota.agent.machine import IncarnationStatus, Machine, Order
from rota.model.cluster import Cluster
from rota.model.commands import Kill, Launch, Renew, Suspend, SuspendKind
from rota.model.events import Exited, External, Outcome, Progressed, Started, Suspended

PORTS = 20_000, 12_000
"""First port and how many: where the processes of a gang may meet."""


class Local:
    """Carries job commands out on this machine."""

    def __init__(
        self,
        home: Path,
        cluster: Cluster,
        wake: Callable[[], None],
        spec_of: Callable[[int], Mapping[str, Any]],
        clock: Callable[[], float],
        lease_grace_seconds: float,
    ) -> None:
        self.home, self.cluster, self._spec_of, self._clock = home, cluster, spec_of, clock
        self._lease_grace = lease_grace_seconds
        (home / "logs").mkdir(parents=True, exist_ok=True)
        self.machine = Machine(home, wake)
        self._started: set[tuple[int, int]] = set()
        self.latest: dict[int, IncarnationStatus] = {}
        """Where each job that runs is, as of the last look."""
        self._reported: dict[int, float] = {}

    # Commands ----------------------------------------------------------------------------------------------------

    def launch(self, command: Launch) -> list[External]:
        spec = self._spec_of(command.job)
        self.machine.launch(
            Order(
                job=command.job,
                incarnation=command.incarnation,
                sequence=command.sequence,
                argv=tuple(spec["argv"]),
                env=self._environment(command, spec),
                workdir=spec["workdir"],
                log=self.log(command.job),
                gpus_text=where_text(self.cluster, command.gpus),
                from_step=command.from_step,
                lease_seconds=max(command.lease_s - self._clock(), 0.0),
                grace_seconds=spec["grace_seconds"],
                lease_grace_seconds=min(spec["grace_seconds"], self._lease_grace),
                progress=spec["progress"] or "",
                steps_total=spec["steps"],
            )
        )
        return []

    def suspend(self, command: Suspend) -> list[External]:
        self.machine.suspend(command.job, command.incarnation, command.sequence)
        return []  # if nobody was there to tell, its end is on the way

    def kill(self, command: Kill) -> list[External]:
        if self.machine.kill(command.job, command.incarnation, command.sequence):
            return []
        if any((part.job, part.incarnation) == (command.job, command.incarnation) for part in self.machine.inventory()):
            return []  # it has ended, and the next look says how
        return [Exited(command.job, command.incarnation, self._clock(), Outcome.LOST, 0.0)]

    def renew(self, command: Renew) -> list[External]:
        self.machine.renew(command.job, command.incarnation, max(command.lease_s - self._clock(), 0.0))
        return []

    # Events ------------------------------------------------------------------------------------------------------

    def look(self, everything: bool = False) -> list[External]:
        """What changed since the last look; after a restart, everything there is."""
        events: list[External] = []
        changed = self.machine.poll()
        for part in self.machine.inventory() if everything else changed:
            events.extend(self._events(part))
        return events

    def _events(self, part: IncarnationStatus) -> list[External]:
        key = (part.job, part.incarnation)
        events: list[External] = []
        if part.started_s is not None and key not in self._started:
            self._started.add(key)
            events.append(Started(part.job, part.incarnation, part.launch_sequence, part.started_s))
        if part.state == "ended":
            self.latest.pop(part.job, None)
            self._reported.pop(part.job, None)
            events.append(self._end(part))
        elif part.state == "running":
            self.latest[part.job] = part
        return events

    def _end(self, part: IncarnationStatus) -> External:
        at_s = part.ended_s if part.ended_s is not None else self._clock()
        saved = self._saved(part)
        if part.outcome == Outcome.YIELDED and part.asked == "suspend":
            return Suspended(part.job, part.incarnation, part.sequence, at_s, SuspendKind.CHECKPOINT, saved)
        return Exited(part.job, part.incarnation, at_s, Outcome(part.outcome or Outcome.LOST), saved)

    def _saved(self, part: IncarnationStatus) -> float:
        """A job that tells no steps has one per second, like every job that nobody profiled."""
        if not self._spec_of(part.job)["progress"] and part.exit_code in (0, 75):
            return part.steps_saved + max((part.ended_s or 0.0) - (part.started_s or 0.0), 0.0)
        return part.steps_saved

    def progress(self) -> list[External]:
        """Where the jobs are that tell their steps: one batch, of those that moved."""
        moved = [
            part
            for part in self.latest.values()
            if self._spec_of(part.job)["progress"] and part.steps_done != self._reported.get(part.job, 0.0)
        ]
        if not moved:
            return []
        self._reported |= {part.job: part.steps_done for part in moved}
        return [
            Progressed(
                np.array([part.job for part in moved], dtype=np.int64),
                np.array([part.incarnation for part in moved], dtype=np.int64),
                np.array([part.steps_done for part in moved], dtype=np.float64),
                np.array([part.steps_saved for part in moved], dtype=np.float64),
                self._clock(),
            )
        ]

    def forget_ended(self) -> None:
        """What has ended and is in the journal needs no files any more."""
        for part in self.machine.inventory():
            if part.state == "ended":
                self.machine.forget(part.job, part.incarnation)
                self._started.discard((part.job, part.incarnation))

    def strays(self, wanted: Callable[[int, int], bool]) -> None:
        """Ends processes that the scheduler knows nothing of: a journal that was set back does not say who they are."""
        for part in self.machine.inventory():
            if part.state != "ended" and not wanted(part.job, part.incarnation):
                self.machine.kill(part.job, part.incarnation, 1 << 40)

    def log(self, job: int) -> Path:
        return self.home / "logs" / f"{job}.log"

    def close(self) -> None:
        self.machine.close()

    def _environment(self, command: Launch, spec: Mapping[str, Any]) -> dict[str, str]:
        """What a job sees: its own variables, then ours. Nothing of the scheduler's own environment."""
        first, count = PORTS
        gpus = command.gpus.tolist()
        env = {
            **spec["env"],
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": ",".join(str(gpu) for gpu in gpus),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(first + (command.job * 8 + command.incarnation) % count),
            "NNODES": "1",
            "NODE_RANK": "0",
            "PYTHONUNBUFFERED": "1",
            "ROTA_JOB_ID": str(command.job),
            "ROTA_JOB_NAME": spec["name"],
            "ROTA_GPUS": str(len(gpus)),
            "ROTA_INCARNATION": str(command.incarnation),
            "ROTA_RESTARTS": str(command.incarnation - 1),
            "ROTA_CHECKPOINT_DIR": spec["checkpoint_dir"],
            "ROTA_FROM_STEP": f"{command.from_step:g}",
            "ROTA_HOST": socket.gethostname(),
            "ROTA_LIFE": secrets.token_hex(12),
        }
        if len(gpus) == 1:
            env |= {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"}
        return env


def where_text(cluster: Cluster, gpus: "np.ndarray[Any, Any]") -> str:
    """`n1:0-3`, or `n1:0,2 n2:1`: the nodes and the GPUs on them."""
    found = []
    for node in sorted(set(cluster.gpu_node[gpus].tolist())):
        mine = sorted(int(g - cluster.node_first[node]) for g in gpus[cluster.gpu_node[gpus] == node].tolist())
        run = len(mine) > 1 and mine == list(range(mine[0], mine[-1] + 1))
        found.append(f"{cluster.nodes[node].name}:" + (f"{mine[0]}-{mine[-1]}" if run else ",".join(map(str, mine))))
    return " ".join(found)
