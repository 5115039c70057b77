"""Commands as messages to the agents of nodes.

A launch becomes one order for each machine of its gang. Leases are instants of the node's own clock, so a message is made when
it is sent.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rota.agent.attempt_files import LaunchOrder
from rota.agent.disk import LOGS
from rota.agent.messages import ChangeSize, Forget, StartAttempt
from rota.agent.mps import mps_environment
from rota.live.driver_node import DriverNode, PendingMessage
from rota.live.driver_protocol import DriverContext
from rota.live.home_id import home_id
from rota.live.job_environment import GangPlace, job_environment, size_variables
from rota.live.placement_text import where_text
from rota.model.commands import Kill, Launch, Renew, Resize, Resume, Suspend
from rota.park.facts import parking_facts
from rota.park.park_method import choose_park_method
from rota.wire.submitted import SubmittedJob


class LaunchOrders:
    """Turns commands into messages."""

    def __init__(self, home: Path, *, lease_grace_seconds: float, log_bytes: int, mps: Path | None) -> None:
        """`log_bytes`: the longest log of a job. `mps`: the folder of the control daemon of MPS, on every node that has one."""
        self._home, self._lease_grace, self._log_bytes, self._mps = home, lease_grace_seconds, log_bytes, mps
        self._context: DriverContext
        self._home_id = ""

    def open(self, context: DriverContext) -> None:
        self._context, self._home_id = context, home_id(self._home)

    def cuda_numbers(self, node: DriverNode, gpus: Sequence[int]) -> list[int | None]:
        """Return how CUDA numbers these GPUs of the core on a machine; None for one that the machine does not have."""
        index = dict(zip(node.facts.devices, node.facts.indices, strict=True))
        return [index.get(self._context.device(gpu)) for gpu in gpus]

    def park_method_here(self, job: SubmittedJob, *, real_gpus: bool) -> tuple[str, str]:
        """Return how this machine would park a job, and why so."""
        facts = parking_facts(
            job.argv,
            job.env,
            job.workdir,
            wanted=job.park,
            gpus=most_gpus(job),
            real_gpus=real_gpus,
            mps=self._mps is not None,
        )
        return choose_park_method(facts)

    def launches(self, command: Launch, places: Mapping[DriverNode, Sequence[int]]) -> list[tuple[DriverNode, PendingMessage]]:
        """Return a message for each machine of a gang. `places`: CUDA's numbers of its GPUs there."""
        first, found = next(iter(places)).facts, list[tuple[DriverNode, PendingMessage]]()
        for rank, (node, gpus) in enumerate(places.items()):
            place = GangPlace(
                host=node.facts.host,
                node=node.facts.name,
                gpus=gpus,
                address=first.address,
                nodes=len(places),
                rank=rank,
                interface=node.facts.interface,
            )
            found.append((node, self._start(command, place)))
        return found

    def _start(self, command: Launch, place: GangPlace) -> PendingMessage:
        job = self._context.submitted(command.job)
        asked = {"wanted": job.park, "gpus": most_gpus(job), "mps": self._mps is not None}
        parking = asked if job.preemptible is not False else None
        key = command.job, command.attempt
        return PendingMessage(lambda node: StartAttempt(*key, self._order(command, place, node)._asdict(), parking))

    def _order(self, command: Launch, place: GangPlace, node: DriverNode) -> LaunchOrder:
        job = self._context.submitted(command.job)
        assert node.behind_s is not None
        env = job_environment(command, job, place, self._home_id, secrets.token_hex(12))
        return LaunchOrder(
            job=command.job,
            attempt=command.attempt,
            sequence=command.sequence,
            argv=job.argv,
            env=env | mps_environment(self._mps, place.gpus, job.gpu_gib),
            workdir=job.workdir,
            log=str(log_path(self._home, command.job, place.rank)),
            gpus_text=where_text(self._context.cluster(), command.gpus),
            from_step=command.from_step,
            lease_seconds=command.lease_s - node.behind_s,  # an instant there
            grace_seconds=job.grace_seconds,
            lease_grace_seconds=min(job.grace_seconds, self._lease_grace),
            progress=(job.progress or "") if place.rank == 0 else "",
            steps_total=job.steps,
            stays=not (job.saves or job.preemptible),
            log_bytes=self._log_bytes,
            clock_origin_s=node.behind_s,
        )

    def message(self, command: Suspend | Resume | Resize | Kill | Renew, nodes: Sequence[DriverNode]) -> PendingMessage:
        """Return the message of a command to each of these machines, which are all of the job's."""
        if isinstance(command, Resize):
            return self._resize(command, nodes)
        command = replace(command, nodes=())
        if isinstance(command, Renew):
            return PendingMessage(lambda node: _in_node_time(command, node), (command.job, command.attempt))
        return PendingMessage(lambda node: _in_node_time(command, node))

    def _resize(self, command: Resize, nodes: Sequence[DriverNode]) -> PendingMessage:
        """Return how a job gets another size.

        A session of one process takes another batch size by itself. For other GPUs, or in several processes, the job saves and is
        started again where it is. A gang of several machines saves and leaves, and the core launches it again: its parts would
        not start at the same moment, and the first would meet processes of the former size.
        """
        key = command.job, command.attempt
        if len(nodes) > 1:
            return PendingMessage(lambda node: Suspend(*key, command.sequence, ()))
        node, text = nodes[0], where_text(self._context.cluster(), command.gpus)
        known = node.known.get(key)
        change = ChangeSize(*key, command.sequence, command.batch_size)
        if len(command.gpus) == 1 and known is not None and known[0].gpus_text == text:
            return PendingMessage(lambda node: change)
        gpus = [number for number in self.cuda_numbers(node, command.gpus.tolist()) if number is not None]
        place = GangPlace(host=node.facts.host, node=node.facts.name, gpus=gpus)
        env = size_variables(command, place) | mps_environment(self._mps, gpus, self._context.submitted(command.job).gpu_gib)
        return PendingMessage(lambda node: replace(change, env=env, gpus_text=text))


def forget(job: int, attempt: int) -> PendingMessage:
    """Return the message by which an agent removes the files of an attempt that has ended."""
    return PendingMessage(lambda node: Forget(job, attempt))


def _in_node_time(command: "Suspend | Resume | Kill | Renew", node: DriverNode) -> "Suspend | Resume | Kill | Renew":
    """Return the command with its lease as an instant of the node's clock."""
    if isinstance(command, Renew | Resume):
        return replace(command, lease_s=command.lease_s - (node.behind_s or 0.0))
    return command


def log_path(home: Path, job: int, rank: int = 0) -> Path:
    """Return where the output of a part of a job is."""
    return home / LOGS / (f"{job}.log" if rank == 0 else f"{job}.node{rank}.log")


def most_gpus(job: SubmittedJob) -> float:
    """Return the largest number of GPUs that a job accepts."""
    return max((job.gpus, *job.gpu_counts))
