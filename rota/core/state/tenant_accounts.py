"""The accounts of tenants and users: a tree with a node for each tenant and below it one for each of its users.

A job belongs to a leaf: its user in its tenant. A tenant that has tenants below it keeps its own users in a node of their own,
which is one more sibling of those tenants. Without tenants the tree is empty, and nothing reads it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rota.core.state.copying import copied
from rota.model.job import JobSpec
from rota.model.options import Options
from rota.model.tenants import Tenants
from rota.model.units import FOREVER, Floats, Ints

OWN = "."
"""Last part of the path of the node that has a tenant's own users."""
RECENT = 1000
"""Starts of jobs within their guarantee that are remembered for each tenant."""

NodeKey = tuple[str, str | None]
"""Path of a tenant and the name of a user; None for the tenant itself."""


def _no_numbers() -> Ints:
    return np.empty(0, dtype=np.int64)


def _no_floats() -> Floats:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class Flows:
    """What nodes receive, lend and borrow each second while nothing changes. Columns have an entry for each node."""

    parent: Ints
    """Parents in the tree for which this holds."""
    reference: tuple[Options, Floats, Floats]
    """Reference rates for which this holds."""
    usable: Ints
    """Usable GPUs of each pool for which this holds."""
    runs: tuple[bytes, ...]
    """Columns of the job table from which follows what is received."""
    asks: tuple[bytes, ...]
    """Columns of the job table from which follows what is asked for."""
    has: Floats
    """GPUs in use."""
    work: Floats
    """Normalised work."""
    promised: Floats
    """Normalised work that the guarantee alone would give."""
    borrowed: Floats = field(default_factory=_no_floats)
    """GPUs in use beyond the guarantee."""
    lent: Floats = field(default_factory=_no_floats)
    """GPUs of the guarantee that siblings use."""
    gained: Floats | None = None
    """Credit gained, below 0 if it is lost; None if there are no credits."""
    step: Floats = field(default_factory=_no_floats)
    """Width of the bands of credit or usage."""


@dataclass(eq=False)
class TenantAccounts:
    """The tree, and what each node has received, lent and borrowed. Columns have an entry for each node."""

    tenants: Tenants | None = None
    """The operator's tenants; None if there are none."""
    node_of: dict[NodeKey, int] = field(default_factory=dict)
    """Number of each node; the root, which has the empty path, is 0."""
    parent: Ints = field(default_factory=_no_numbers)
    """Number of the node above; -1 for the root."""
    depth: Ints = field(default_factory=_no_numbers)
    """Number of nodes above."""
    weight: Floats = field(default_factory=_no_floats)
    guarantee: Floats = field(default_factory=_no_floats)
    """Guaranteed GPUs."""
    cap: Floats = field(default_factory=_no_floats)
    """Most GPUs; infinite if there is no cap."""
    credit: Floats = field(default_factory=_no_floats)
    """Normalised work lent, less that borrowed, in GPU-seconds of the reference type. The credits of siblings add up to 0."""
    usage: Floats = field(default_factory=_no_floats)
    """Normalised work received, halved with every half-life, in GPU-seconds of the reference type."""
    work_seconds: Floats = field(default_factory=_no_floats)
    """Normalised work received, in GPU-seconds of the reference type."""
    gpu_seconds: Floats = field(default_factory=_no_floats)
    """GPU-seconds received."""
    promised_seconds: Floats = field(default_factory=_no_floats)
    """Normalised work that the guarantee alone would have given to unfinished jobs, in GPU-seconds of the reference type. A
    guaranteed GPU counts as the average GPU of the cluster."""
    borrowed_seconds: Floats = field(default_factory=_no_floats)
    """GPU-seconds received beyond the guarantee."""
    lent_seconds: Floats = field(default_factory=_no_floats)
    """GPU-seconds of the guarantee that siblings used."""
    band: Ints = field(default_factory=_no_numbers)
    """Rank among siblings, larger is first: the credit or the usage in steps that are left only by half a step more."""
    settled_s: float = 0.0
    """Time up to which everything is booked."""
    starts: dict[int, tuple[float, ...]] = field(default_factory=dict)
    """Node -> seconds from arrival to start of the last jobs that arrived within the guarantee of their tenant."""
    _levels: list[Ints] | None = None
    _above: Ints | None = None
    _reference: tuple[Options, Floats, Floats] | None = None
    """Options, and for each kind its rate on the reference type and the normalised work of an average GPU."""
    _flows: "Flows | None" = None
    """What nodes receive, lend and borrow since the jobs last changed."""
    _promises: tuple[Ints, Tenants | None, tuple[str, ...], object] | None = None
    """Parents, tenants and pools, and their guarantees as arrays. The planner keeps them here."""
    _line: tuple[Ints, Ints, Ints] | None = None
    """Bands and parents, and by these the place of each node among those that borrow. The planner keeps them here."""

    def leaf_of(self, spec: JobSpec) -> NodeKey:
        """Return the key of the leaf of a job."""
        assert self.tenants is not None
        home = self.tenants.home_of(spec.tenant)
        return (home if home is not None else "", spec.user)

    def lineage(self, node: int) -> list[int]:
        """Return a node and all nodes above it but the root, deepest first."""
        found = []
        while node > 0:
            found.append(node)
            node = self.parent.item(node)
        return found

    def path_of(self, node: int) -> str:
        """Return the path of the tenant to which a node belongs."""
        return self.keys[node][0].removesuffix("/" + OWN)

    @property
    def levels(self) -> list[Ints]:
        """Nodes of each depth, deepest first, without the root."""
        if self._levels is None:
            self._levels = [(self.depth == depth).nonzero()[0] for depth in range(int(self.depth.max(initial=0)), 0, -1)]
        return self._levels

    @property
    def above(self) -> Ints:
        """For each depth from 1 on: the node of this depth that each node is or that is above it, -1 if it is less deep."""
        if self._above is None:
            self._above = np.full((int(self.depth.max(initial=0)), len(self.parent)), -1)
            for node in range(1, len(self.parent)):
                for each in self.lineage(node):
                    self._above[self.depth.item(each) - 1, node] = each
        return self._above

    @property
    def keys(self) -> list[NodeKey]:
        return list(self.node_of)

    def copy(self) -> "TenantAccounts":
        return copied(self)

    # Writing: only `fold` calls these ----------------------------------------------------------------------------

    def plant(self, tenants: Tenants | None) -> None:
        """Begin a tree with the nodes of all tenants. What nodes of the same names have received stays."""
        before, columns = dict(self.node_of), {name: getattr(self, name) for name in COLUMNS}
        starts = self.starts
        fresh = TenantAccounts(tenants, settled_s=self.settled_s)
        self.__dict__.update(fresh.__dict__)
        if tenants is None:
            return
        self._add(("", None), -1)
        for path in tenants.paths:
            above = path.rpartition("/")[0]
            number = self._add((path, None), self.node_of[above, None])
            self.weight[number], self.guarantee[number] = tenants.weight(path), tenants.guarantee(path).gpus
            self.cap[number] = tenants.caps.get(path, FOREVER)
            if tenants.children(path):
                self._add((f"{path}/{OWN}", None), number)
        for key in before:
            if key[1] is not None and tenants.home_of(key[0]) == key[0]:
                self.add_leaf(key)
        both = [(old, self.node_of[key]) for key, old in before.items() if key in self.node_of]
        if both:
            old, new = np.array(both).T
            for name in KEPT:
                getattr(self, name)[new] = columns[name][old]
            self.starts = {number: starts[had] for had, number in both if had in starts}
            self._balance()

    def add_leaf(self, key: NodeKey) -> int:
        """Return the node of a user in a tenant, which is added if it is new."""
        number = self.node_of.get(key)
        if number is None:
            own = self.node_of.get((f"{key[0]}/{OWN}", None))
            number = self._add(key, own if own is not None else self.node_of[key[0], None])
        return number

    def _add(self, key: NodeKey, parent: int) -> int:
        number = self.node_of[key] = len(self.node_of)
        depth = 0 if parent < 0 else self.depth.item(parent) + 1
        values = {"parent": parent, "depth": depth, "weight": 1.0, "cap": FOREVER}
        self._levels = self._above = None
        for name in COLUMNS:
            setattr(self, name, np.append(getattr(self, name), values.get(name, 0)))
        return number

    def _balance(self) -> None:
        """Share what siblings that are gone had among the rest, so that credits add up to 0."""
        for above in np.unique(self.parent[1:]).tolist():
            siblings = self.parent == above
            self.credit[siblings] -= self.credit[siblings].mean()

    def note_start(self, spec: JobSpec, seconds: float) -> None:
        """Note how long a job that arrived within the guarantee of its tenant waited."""
        number = self.node_of[self.leaf_of(spec)[0], None]
        self.starts[number] = (*self.starts.get(number, ()), seconds)[-RECENT:]


KEPT = ("credit", "usage", "work_seconds", "gpu_seconds", "promised_seconds", "borrowed_seconds", "lent_seconds")
"""Columns that stay when the tenants change."""
COLUMNS = ("parent", "depth", "weight", "guarantee", "cap", *KEPT, "band")


def start_percentiles(starts: Mapping[int, tuple[float, ...]], node: int) -> tuple[float | None, float | None]:
    """Return the median and the 99th percentile of the time to start, in seconds; None if no job arrived within the guarantee."""
    seconds = starts.get(node, ())
    return (float(np.percentile(seconds, 50)), float(np.percentile(seconds, 99))) if seconds else (None, None)
