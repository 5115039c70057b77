"""The setup of a home's scheduler, as its journal keeps it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rota.core.setup import GivenBeliefs, Setup
from rota.live.cluster_changes import Devices, NamedNode, pretend_devices
from rota.live.given_beliefs import GivenFlags, given_beliefs, scored_devices
from rota.model.cluster import Cluster
from rota.model.placement_view import Placer


@dataclass(frozen=True, kw_only=True)
class HomeSetup(Setup):
    """A setup, and what it was made from. Two are equal if they were made from the same."""

    placer: Placer = field(compare=False)
    given: GivenBeliefs = field(compare=False)
    placer_name: str
    """Placer with its options, as text."""
    cluster: Cluster
    """Nodes that the driver had at this start."""
    pretend: bool
    """Whether the GPUs are pretend GPUs."""
    flags: GivenFlags = field(default_factory=dict)
    """Flags that the home keeps, by the names of the fields of `Study`."""
    context_gib: float = 0.0
    """GPU memory that a parked process keeps on each of its GPUs, in GiB."""
    devices: tuple[Devices, ...] = ()
    """Names of the GPUs of each node, by the number of the node, also of nodes that have left."""

    @property
    def policy(self) -> str:
        """Policy with its options, as text."""
        assert self.settings.policy is not None
        return self.settings.policy

    def with_devices(self, devices: tuple[Devices, ...]) -> "HomeSetup":
        """Return the same setup for GPUs with these names. Scores are given by name, so they go to other numbers."""
        if devices == self.devices:
            return self
        return replace(self, devices=devices, given=given_beliefs(self.flags, self.context_gib, scored_devices(devices)))


def known_devices(before: HomeSetup | None, there: Sequence[NamedNode]) -> tuple[Devices, ...]:
    """Return the names of the GPUs that the home knows. Real GPUs of an earlier version have no names. They count as the same
    GPUs if their types and numbers are the same."""
    if before is not None and before.devices:
        return before.devices
    if before is not None:
        nodes = [(node.accelerator, node.gpus) for node in before.cluster.nodes]
        if nodes != [(each.node.accelerator, each.node.gpus) for each in there]:
            return pretend_devices(before.cluster)
    return tuple(each.devices for each in there)
