"""Commands as messages to the agents of nodes. A launch becomes one order for each machine of its gang."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rota.agent.attempt_files import LaunchOrder
from rota.agent.disk import LOGS
from rota.agent.messages import AgentMessage, ChangeSize
from rota.agent.mps import mps_environment
from rota.live.driver_node import DriverNode
from rota.live.driver_protocol import DriverContext
from rota.live.home_id import home_id
from rota.live.job_environment import GangPlace, job_environment, size_variables
from rota.live.placement_text import format_placement
from rota.model.commands import Kill, Launch, Prepare, Renew, Resize, Resume, Suspend
from rota.park.facts import parking_facts
from rota.park.park_method import choose_park_method
from rota.wire.submission import Submission


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

    def park_method_here(self, job: Submission, *, real_gpus: bool) -> tuple[str, str]:
        """Return how this machine would park a job, and why so."""
        facts = parking_facts(
            job.argv,
            job.variables,
            job.folder,
            wanted=job.spec.may_park,
            gpus=job.spec.most_gpus,
            real_gpus=real_gpus,
            mps=self._mps is not None,
        )
        return choose_park_method(facts)

    def launches(self, command: Launch, places: Mapping[DriverNode, Sequence[int]]) -> list[tuple[DriverNode, LaunchOrder]]:
        """Return the order for each machine of a gang. `places`: CUDA's numbers of its GPUs there."""
        first, found = next(iter(places)).facts, list[tuple[DriverNode, LaunchOrder]]()
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
            found.append((node, self._order(command, place)))
        return found

    def _order(self, command: Launch, place: GangPlace) -> LaunchOrder:
        """Return the order for one machine; its lease ends on the scheduler's clock until it is sent (`in_node_time`)."""
        job = self._context.submitted(command.job)
        spec, grace_seconds = job.spec, job.spec.checkpoint.grace
        env = job_environment(command, job, place, self._home_id)
        return LaunchOrder(
            job=command.job,
            attempt=command.attempt,
            sequence=command.sequence,
            argv=job.argv,
            env=env | mps_environment(self._mps, place.gpus, spec.gpu_memory),
            workdir=job.folder,
            log=str(log_path(self._home, command.job, place.rank)),
            gpus_text=format_placement(self._context.cluster(), command.gpus),
            from_step=command.from_step,
            lease_seconds=command.lease_s,
            grace_seconds=grace_seconds,
            lease_grace_seconds=min(grace_seconds, self._lease_grace),
            progress=spec.progress if place.rank == 0 else None,
            steps_total=spec.steps,
            stays=not (spec.checkpoint.saves or spec.preemptible),
            log_bytes=self._log_bytes,
            may_park=spec.may_park if spec.preemptible is not False else None,
            most_gpus=spec.most_gpus,
            mps=self._mps is not None,
            uid=job.uid,
        )

    def message(self, command: Suspend | Resume | Resize | Kill | Renew | Prepare, nodes: Sequence[DriverNode]) -> AgentMessage:
        """Return the message of a command to each of these machines, which are all of the job's."""
        return self._resize(command, nodes) if isinstance(command, Resize) else replace(command, nodes=())

    def _resize(self, command: Resize, nodes: Sequence[DriverNode]) -> AgentMessage:
        """Return how a job gets another size.

        A session of one process takes another batch size by itself. For other GPUs, or in several processes, the job saves and is
        started again where it is. A gang of several machines saves and exits, and the core launches it again. Otherwise its
        parts would start at different moments, and the first would meet processes of the former size.
        """
        key = command.job, command.attempt
        if len(nodes) > 1:
            return Suspend(*key, command.sequence, ())
        node, text = nodes[0], format_placement(self._context.cluster(), command.gpus)
        known = node.known.get(key)
        change = ChangeSize(*key, command.sequence, command.batch_size or 0)
        if len(command.gpus) == 1 and known is not None and known.gpus_text == text:
            return change
        gpus = [number for number in self.cuda_numbers(node, command.gpus.tolist()) if number is not None]
        place = GangPlace(host=node.facts.host, node=node.facts.name, gpus=gpus)
        job = self._context.submitted(command.job)
        env = size_variables(command, job, place) | mps_environment(self._mps, gpus, job.spec.gpu_memory)
        return replace(change, env=env, gpus_text=text)


def log_path(home: Path, job: int, rank: int = 0) -> Path:
    """Return where the output of a part of a job is."""
    return home / LOGS / (f"{job}.log" if rank == 0 else f"{job}.node{rank}.log")
