"""Hierarchical fairness: tenants share the cluster by weight, to any depth, and divide their part by their own policy (Gavel
4.3)."""

from dataclasses import dataclass, field

import numpy as np

from rota.model.allocation import Shares
from rota.model.needs import Needs
from rota.model.tenants import FIFO, Tenants, lineage
from rota.model.units import Bools, Floats, Ints
from rota.model.view import View
from rota.solver.effect import Effect
from rota.solver.filling import water_fill
from rota.solver.program import Program


@dataclass(frozen=True)
class Hierarchical:
    """Water-filling over a tree. What a tenant cannot use goes to its siblings first."""

    tenants: Tenants = field(default_factory=Tenants)
    """Weights and inner policies of tenants: a YAML file that the operator writes."""
    type_aware: bool = True
    """Use how fast each job is on each type. If false, all types count the same."""
    colocation: bool = False
    """Let two jobs share GPUs if together they do more."""

    @property
    def needs(self) -> Needs:
        return Needs(colocation=self.colocation, several_types=not self.type_aware, tenants=True)

    def allocate(self, view: View) -> Shares:
        queues = np.array([self.tenants.policy(path) == FIFO for path in view.tenants] or [False])
        # Jobs of one tenant are alike, unless the tenant runs them in order of submission.
        in_order = queues[view.jobs.tenant] if len(view.jobs) else np.empty(0, dtype=bool)
        apart = np.where(in_order, len(view.tenants) + np.arange(len(view.jobs)), view.jobs.tenant)
        program = Program(view, type_aware=self.type_aware, colocation=self.colocation, apart=apart)
        tree = _Tree(self.tenants, view.tenants, program, view.jobs.tenant)
        level = program.rate * (program.gpus / program.average_type_rate)
        return water_fill(program, level, tree.weigh).shares(key="tenant's share")

    def objective(self, effect: Effect) -> float:
        """Smallest normalised throughput."""
        return float((effect.rate * effect.view.jobs.gpus / effect.average_type_rate).min(initial=np.inf))


class _Tree:
    """Divides 1 among the claimants that may still rise, along their paths."""

    def __init__(self, tenants: Tenants, paths: tuple[str, ...], program: Program, tenant_of_job: Ints) -> None:
        self._tenant = tenant_of_job[program.who.first]
        self._weight = program.weight * program.members
        self._first = program.who.first
        self._members = program.members
        self._tenants = tenants
        self._paths = paths

    def weigh(self, free: Bools) -> Floats:
        here = [path for number, path in enumerate(self._paths) if (free & (self._tenant == number)).any()]
        part = {path: self._part(path, here) for path in here}
        weight = np.zeros(len(free))
        for path, whole in part.items():
            mine = (free & (self._tenant == self._paths.index(path))).nonzero()[0]
            if self._tenants.policy(path) == FIFO:
                weight[mine[np.argmin(self._first[mine])]] = whole
            else:
                weight[mine] = whole * self._weight[mine] / self._weight[mine].sum() / self._members[mine]
        return weight

    def _part(self, path: str, here: list[str]) -> float:
        """Return the product, down the path, of each tenant's weight as a fraction of its active siblings' weights. A tenant's
        own jobs count as one more child, of weight 1."""
        part, above = 1.0, ""
        for step in lineage(path):
            part *= self._tenants.weight(step) / self._rivals(above, here)
            above = step
        own = not path or any(other != path and _inside(path, other) for other in here)
        return part / self._rivals(path, here) if own else part

    def _rivals(self, above: str, here: list[str]) -> float:
        """Return the sum of the weights of all that share what a tenant gets."""
        children = {_child(above, other) for other in here if _inside(above, other)}
        return sum(self._tenants.weight(name) if name != above else 1.0 for name in children)


def _inside(above: str, path: str) -> bool:
    return not above or path == above or path.startswith(above + "/")


def _child(above: str, path: str) -> str:
    """Return the child of `above` on the way to `path`, or `above` itself for its own jobs."""
    depth, steps = len(lineage(above)), lineage(path)
    return steps[depth] if depth < len(steps) else above
