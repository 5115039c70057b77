"""A core for tests: events in, commands out, no driver."""

from collections.abc import Sequence
from typing import Any

from rota.beliefs.move_costs import MoveCosts
from rota.beliefs.rates import SAME_SPEED, Rates
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.state.state import State
from rota.core.validate import validate
from rota.model.cluster import Cluster, Node
from rota.model.commands import CallPolicy, Command, Launch, Resume, Suspend
from rota.model.events import Allocated, External, Started, Submitted, Suspended
from rota.model.job import JobSpec
from rota.model.policy import Policy
from rota.placers.packed import Packed
from rota.policies.srsf import Srsf


class Bench:
    """Feeds one core by hand; `obey` plays the honest driver that answers everything at once."""

    def __init__(
        self,
        cluster: str | Cluster | Sequence[Node] = "4xV100",
        policy: Policy | None = None,
        rates: Rates = SAME_SPEED,
        costs: MoveCosts | None = None,
        **settings: Any,
    ) -> None:
        floor = (
            Cluster.parse(cluster)
            if isinstance(cluster, str)
            else cluster
            if isinstance(cluster, Cluster)
            else Cluster.of(cluster)
        )
        self.core = Scheduler(floor, Packed(), Settings(**settings), rates=rates, costs=costs)
        self.policy = policy or Srsf()
        self.now_s = 0.0
        self.wake_s = float("inf")
        self.jobs = 0

    @property
    def state(self) -> State:
        return self.core.state

    def tell(self, *events: External, at_s: float | None = None) -> list[Command]:
        """One step; questions to the policy are answered at once, all else is returned."""
        if at_s is not None:
            self.now_s = at_s
        told = list(self.core.step(self.now_s, list(events)))
        validate(self.core.state)
        commands = []
        for command in told:
            if isinstance(command, CallPolicy):
                answer = self.policy.allocate(command.view)
                commands += self.tell(Allocated(command.ticket, answer, self.now_s))
            else:
                commands.append(command)
        return commands

    def submit(self, at_s: float | None = None, **spec: Any) -> list[Command]:
        if at_s is not None:
            self.now_s = at_s
        spec.setdefault("steps", 100.0)
        self.jobs += 1
        return self.tell(Submitted(self.jobs - 1, JobSpec(**spec), self.now_s))

    def obey(self, commands: list[Command], steps: float = 1.0) -> list[Command]:
        """Answer launches and suspensions until nothing is left to answer; returns every command seen."""
        seen, waiting = list(commands), list(commands)
        while waiting:
            answers: list[External] = []
            for command in waiting:
                if isinstance(command, Launch | Resume):
                    answers.append(Started(command.job, command.attempt, command.sequence, self.now_s))
                elif isinstance(command, Suspend):
                    answers.append(Suspended(command.job, command.attempt, command.sequence, self.now_s, command.kind, steps))
            waiting = self.tell(*answers) if answers else []
            seen += waiting
        return seen


def of_type(commands: list[Command], *kinds: type) -> list[Any]:
    return [command for command in commands if isinstance(command, kinds)]
