"""Read the operator's tenants from a YAML file.

tenants:
  vision:                # a tenant; jobs name theirs as a path: vision/pretraining
    weight: 2            # relative to its siblings; default 1
    guarantee: 16        # GPUs; or by type: {V100: 8, K80: 8}
    cap: 32              # most GPUs; default none
    user_cap: 8          # most GPUs of each user; default: that of the tenant above
    members: [ana, leo]  # who may submit into the tenant; default: those of the tenant above, at the top all users
    max_jobs: 5000       # most unfinished jobs; default none
    user_max_jobs: 500   # most unfinished jobs of each user; default: that of the tenant above
    policy: fairness     # or fifo, under the policy hierarchical; default: that of the tenant above
    tenants:
      pretraining: {weight: 3, policy: fifo}
      labs: {}
  speech: {guarantee: 8}
user_cap: 8              # user_cap of the tenants at the top that have none
user_max_jobs: 1000      # user_max_jobs of the tenants at the top that have none
unknown: other           # tenant of all other jobs, or refuse; default: a tenant named default
fairness: credits        # or decay, or none
half_life: 7d            # with decay
turn: 10m                # time for which a tenant borrows before its rank falls
reference: V100          # unit of normalised work; default: the fastest type

Files of earlier versions have the tenants at the top. They are read too.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from rota.errors import OptionError, SpecError
from rota.files.csv_table import closest
from rota.files.tree import TreeEntry, read_tree
from rota.model.cluster import Cluster, canonical
from rota.model.counted import counted
from rota.model.job import JobSpec
from rota.model.tenants import INNER, OVER_TIME, REFUSE, Guarantee, Tenants

EXAMPLE = "tenants: {vision: {weight: 2, guarantee: 16}}"
TENANT = ("weight", "policy", "guarantee", "cap", "user_cap", "members", "max_jobs", "user_max_jobs", "tenants")
"""Fields of a tenant."""
WHOLE = ("tenants", "user_cap", "user_max_jobs", "unknown", "fairness", "half_life", "turn", "reference")
"""Fields of a file."""
MOST = 1_000_000
"""Most GPUs of a guarantee or a cap."""
MOST_JOBS = 1_000_000_000
"""Most jobs of a limit."""


def read_tenants(path: Path | str) -> Tenants:
    """Read a YAML file. Raise an error, which names the line, for an unknown name."""
    return parse_tenants(read_tree(path, SpecError, instead=EXAMPLE))


def parse_tenants(root: TreeEntry) -> Tenants:
    """Read the tree of a file."""
    found = _TenantFields()
    top = root.mapping()
    if "tenants" not in top:
        for name in top:
            if name in WHOLE and not isinstance(top[name].value, dict):
                raise root.wrong("has no tenants.", hint=EXAMPLE)
        for name, entry in top.items():
            found.read("", name, entry)
        return found.tenants()
    fields = root.fields(WHOLE, required=("tenants",))
    for name, entry in fields["tenants"].mapping().items():
        found.read("", name, entry)
    if "user_cap" in fields:
        most = float(fields["user_cap"].whole(least=1, most=MOST))
        for name in fields["tenants"].mapping():
            found.user_caps.setdefault(name, most)
    if "user_max_jobs" in fields:
        jobs = fields["user_max_jobs"].whole(least=1, most=MOST_JOBS)
        for name in fields["tenants"].mapping():
            found.user_max_jobs.setdefault(name, jobs)
    usual = Tenants()
    unknown = fields["unknown"].text() if "unknown" in fields else usual.unknown
    if "unknown" in fields and unknown != REFUSE and unknown not in found.weights:
        known = (REFUSE, *found.weights)
        raise fields["unknown"].wrong(
            f"is not a tenant of this file, nor refuse.{closest(unknown, known)}", hint="unknown: refuse"
        )
    fairness = fields["fairness"].text() if "fairness" in fields else usual.fairness
    if fairness not in OVER_TIME:
        raise fields["fairness"].wrong(f"is not one of {', '.join(OVER_TIME)}.", hint="fairness: credits")
    return replace(
        found.tenants(),
        unknown=unknown,
        fairness=fairness,
        half_life_seconds=fields["half_life"].seconds() if "half_life" in fields else usual.half_life_seconds,
        turn_seconds=fields["turn"].seconds() if "turn" in fields else usual.turn_seconds,
        reference=canonical(fields["reference"].text()) if "reference" in fields else None,
    )


class _TenantFields:
    """What the tenants of a file have, by their paths."""

    def __init__(self) -> None:
        self.weights: dict[str, float] = {}
        self.policies: dict[str, str] = {}
        self.guarantees: dict[str, Guarantee] = {}
        self.caps: dict[str, float] = {}
        self.user_caps: dict[str, float] = {}
        self.members: dict[str, tuple[str, ...]] = {}
        self.max_jobs: dict[str, int] = {}
        self.user_max_jobs: dict[str, int] = {}

    def tenants(self) -> Tenants:
        return Tenants(
            self.weights,
            self.policies,
            self.guarantees,
            self.caps,
            self.user_caps,
            self.members,
            self.max_jobs,
            self.user_max_jobs,
        )

    def read(self, above: str, name: str, entry: TreeEntry) -> None:
        path = f"{above}/{name}" if above else name
        if not name or "/" in name or name == REFUSE or name.strip(".") == "":
            raise entry.wrong("is not the name of a tenant.", hint=EXAMPLE)
        self.weights[path] = 1.0
        if entry.value is None:
            return
        fields = entry.fields(TENANT)
        if "members" in entry.mapping() and "members" not in fields:
            hint = "members: [], for operators alone; without the line, those of the tenant above"
            raise entry.mapping()["members"].wrong("lists no users.", hint=hint)
        if "weight" in fields:
            self.weights[path] = fields["weight"].number(above=True)
        if "policy" in fields:
            self.policies[path] = fields["policy"].text()
            if self.policies[path] not in INNER:
                raise fields["policy"].wrong(f"is not one of {', '.join(INNER)}.", hint="policy: fairness")
        if "guarantee" in fields:
            self.guarantees[path] = _guarantee(fields["guarantee"])
        for field, table in (("cap", self.caps), ("user_cap", self.user_caps)):
            if field in fields:
                table[path] = float(fields[field].whole(least=1, most=MOST))
        for field, limits in (("max_jobs", self.max_jobs), ("user_max_jobs", self.user_max_jobs)):
            if field in fields:
                limits[path] = fields[field].whole(least=1, most=MOST_JOBS)
        if "members" in fields:
            self.members[path] = _members(fields["members"])
        own = self.guarantees.get(path)
        if own is not None and own.gpus > self.caps.get(path, own.gpus):
            raise fields["guarantee"].wrong(f"is more than the cap of {self.caps[path]:g}.", hint=f"cap: {own.gpus:g}")
        if "tenants" in fields:
            for name, child in fields["tenants"].mapping().items():
                self.read(path, name, child)
            self._check_below(path, entry)

    def _check_below(self, path: str, entry: TreeEntry) -> None:
        """Raise an error if the guarantees below a tenant add up to more than its own."""
        tree = Tenants(self.weights, self.policies, self.guarantees)
        own = self.guarantees.get(path)
        below = [tree.guarantee(child) for child in tree.children(path)]
        total = sum(each.gpus for each in below)
        if own is not None and total > own.gpus:
            raise entry.wrong(
                f"guarantees {own.gpus:g} GPUs, and {total:g} to the tenants below it.", hint=f"guarantee: {total:g}"
            )
        if own is not None and own.by_type:
            for each in below:
                for accelerator, gpus in each.by_type.items():
                    if gpus > own.by_type.get(accelerator, 0.0):
                        raise entry.wrong(
                            f"guarantees {own.by_type.get(accelerator, 0.0):g} GPUs of {accelerator}, and {gpus:g} below it.",
                            hint=f"guarantee: {{{accelerator}: {gpus:g}}}",
                        )


def _members(entry: TreeEntry) -> tuple[str, ...]:
    """Return the users of a list. An empty list is a tenant into which only operators submit."""
    found: dict[str, None] = {}
    for each in entry.items():
        name = each.text()
        if name in found:
            raise each.wrong("is in the list twice.", hint="keep one of the two")
        found[name] = None
    return tuple(found)


def _guarantee(entry: TreeEntry) -> Guarantee:
    if not isinstance(entry.value, dict):
        return Guarantee(float(entry.whole(least=0, most=MOST)))
    by_type = {canonical(name): float(each.whole(least=0, most=MOST)) for name, each in entry.mapping().items()}
    return Guarantee(sum(by_type.values()), by_type)


def check_tenants(tenants: Tenants, cluster: Cluster, where: str) -> None:
    """Raise an error if a cluster cannot keep the guarantees together."""
    total = tenants.guarantee("").gpus if tenants.paths else 0.0
    if total > cluster.gpus:
        raise OptionError(
            f"the guarantees add up to {total:g} GPUs, and the cluster has {cluster.gpus}.",
            field="tenants",
            value=where,
            hint="lower a guarantee",
        )
    have: dict[str, int] = {}
    for node in cluster.nodes:
        have[node.accelerator] = have.get(node.accelerator, 0) + node.gpus
    promised: dict[str, float] = {}
    for path in tenants.children(""):
        for accelerator, gpus in tenants.guarantee(path).by_type.items():
            promised[accelerator] = promised.get(accelerator, 0.0) + gpus
    for accelerator, gpus in promised.items():
        if gpus > have.get(accelerator, 0):
            raise OptionError(
                f"the guarantees add up to {gpus:g} GPUs of {accelerator}, and the cluster has {have.get(accelerator, 0)}.",
                field="tenants",
                value=where,
                hint="lower a guarantee",
            )
    if tenants.reference and tenants.reference not in have:
        types = ", ".join(have)
        raise OptionError(
            f"the reference type {tenants.reference} is not in the cluster, which has {types}.",
            field="tenants",
            value=where,
            hint=f"reference: {next(iter(have), 'V100')}",
        )


def check_owners(tenants: Tenants, specs: Iterable[JobSpec], where: str) -> None:
    """Raise an error if a job belongs to no tenant of a file that refuses such jobs, or alone exceeds a cap."""
    refused, wide = [], []
    for spec in specs:
        home = tenants.home_of(spec.tenant)
        if home is None:
            refused.append(spec)
        elif min((spec.gpus, *spec.gpu_counts)) > tenants.cap_of(home):
            wide.append(spec)
    if refused:
        first = refused[0].tenant or "no tenant"
        raise OptionError(
            f"refuses {counted(len(refused), 'job')} of unknown tenants; the first has {first}.",
            field="tenants",
            value=where,
            hint="unknown: default",
        )
    if wide:
        raise OptionError(
            f"{counted(len(wide), 'job')} alone exceed a cap; the first asks for {wide[0].gpus:g} GPUs.",
            field="tenants",
            value=where,
            hint="raise the cap",
        )
