"""A generator of whole set-ups: any policy with any placer, preset, cluster, workload and options. A number gives a set-up."""

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rota.beliefs.efficiency import Efficiency
from rota.beliefs.rates import Rates
from rota.model.cluster import Cluster, Node
from rota.model.job import Arrival, JobSpec
from rota.model.needs import needs_of
from rota.model.tenants import Tenants
from rota.policies.hierarchical import Hierarchical
from rota.traces.trace import Trace
from tests.fuzz.policies import Hinted, HintedUnits
from tests.packing import Crowded, Evenly

TYPES = ("V100", "P100", "K80", "T4")
PROFILES = ("a", "b", "c")
WIDTHS = (1, 2, 3, 4, 8)

CLUSTERS = (
    "1xV100",
    "2xT4",
    "4xV100",
    "2x(2xV100)",
    "3x(4xV100)",
    "2x(4xV100) + 4xK80",
    "1x(1xV100) + 2x(3xK80)",
    "1x(4xV100) + 2x(2xP100) + 2xK80",
    "2x(2x(2xV100))",
    "2x(2x(2xP100)) + 3x(2xT4)",
    "1xV100 + 1xP100 + 1xK80 + 1xT4",
)

EQUAL = ("2xT4", "4xV100", "2x(2xV100)", "3x(4xV100)", "2x(2x(2xP100))")
"""Where all GPUs are of one type."""

POLICIES: dict[str, dict[str, tuple[str, ...]]] = {
    "fifo": {"backfill": ("true",), "type_aware": ("false",)},
    "fifo:colocation=true": {"type_aware": ("false",)},
    "sjf": {"type_aware": ("false",)},
    "srtf": {"remaining": ("nominal",)},
    "srsf": {},
    "las": {"service": ("seconds",), "quantum_seconds": ("20", "100")},
    "tiresias": {"thresholds": ("30", "50/200", "10/20/30/40"), "promote": ("0.5", "2"), "service": ("seconds",)},
    "gittins": {"thresholds": ("30", "50/200"), "delta": ("60",), "promote": ("1",), "history": ("20/100/400",)},
    "max-min-fairness": {
        "type_aware": ("false",),
        "colocation": ("true", "true"),
        "water_filling": ("true",),
        "face": ("vertex",),
    },
    "finish-time-fairness": {"type_aware": ("false",), "colocation": ("true",)},
    "makespan": {"type_aware": ("false",), "colocation": ("true",)},
    "max-throughput": {"type_aware": ("false",), "colocation": ("true",), "face": ("vertex",)},
    "min-cost": {"slo": ("true",), "idle": ("true",), "type_aware": ("false",), "colocation": ("true",)},
    "allox": {"alpha": ("0.5",)},
    "isolated": {},
    "goodput": {"fairness": ("1",), "batch": ("largest", "requested"), "interval_seconds": ("200",)},
    "optimus": {"batch": ("best", "largest"), "interval_seconds": ("30",)},
    "ones": {
        "population": ("4",),
        "generations": ("1",),
        "batch": ("largest", "requested"),
        "score": ("gpu-seconds",),
        "draws": ("true",),
        "first_gpus": ("1",),
    },
}
"""Names, and the values that each option takes besides its default."""

PLACERS: dict[str, dict[str, tuple[str, ...]]] = {
    "packed": {"sticky": ("false",), "by_size": ("false",)},
    "spread": {"sticky": ("false",)},
    "random": {"sticky": ("false",)},
    "skew": {"sticky": ("false",), "limit": ("0", "1")},
    "pm-first": {"sticky": ("true",)},
    "pal": {"sticky": ("true",), "wide": ("false",)},
}

TENANTS = Tenants({"x": 1.0, "y": 3.0, "y/z": 2.0}, {"y": "fifo"})


@dataclass(frozen=True)
class Setup:
    """What `rota.simulate` is given."""

    number: int
    keywords: dict[str, Any]
    there: Cluster
    resume_in_place: bool = False
    """A parked job goes on where it sleeps, or waits, as on real machines."""

    @property
    def trace(self) -> Trace:
        found: Trace = self.keywords["trace"]
        return found

    @property
    def cluster(self) -> Cluster:
        """Without nodes that join later."""
        return self.there

    def __str__(self) -> str:
        """What a person needs to see where it broke."""
        plain = {name: value for name, value in self.keywords.items() if name not in ("trace", "rates", "cluster", "gpu_speed")}
        return f"set-up {self.number}: {len(self.trace)} jobs on {self.cluster.text}, {plain}"


def make_setup(number: int, folder: Path) -> Setup:
    """The set-up of a number; in a third of them no placer can make a difference. `folder` is for the files that it reads."""
    dice = random.Random(number)
    cluster = _cluster(dice)
    plain = dice.random() < 0.3
    if plain:
        cluster = _host_memory(dice, Cluster.parse(dice.choice(EQUAL)))
    keywords: dict[str, Any] = {
        "cluster": cluster,
        "policy": _policy(dice),
        "placer": _spelled(dice, PLACERS, dice.choice(tuple(PLACERS))),
        "preset": "ideal" if plain else dice.choice(("ideal", "ideal", "measured", "gavel", "blox")),
        "seed": dice.randrange(4),
        "rates": _rates(dice),
    }
    keywords |= _moments(dice, keywords["preset"])
    if not plain:
        keywords |= _physics(dice, cluster) | _extras(dice, keywords["policy"], cluster, folder / f"scores-{number}.csv")
        if "gpu_speed" not in keywords and "variability" not in keywords and dice.random() < 0.25:
            keywords["cluster"] = _changing(dice, cluster, folder / f"cluster-{number}.yaml")
    keywords["trace"] = _trace(dice, cluster, keywords["rates"])
    _make_elastic(random.Random(f"sizes of {number}"), keywords, plain)
    _with_tactics(random.Random(f"tactics of {number}"), keywords)
    moves = random.Random(f"moves of {number}")
    if moves.random() < 0.4:
        more = moves.choice(("defragment", "migrate", "defragment,migrate"))
        keywords["tactics"] = ",".join(filter(None, (keywords.get("tactics", ""), more)))
    saves = random.Random(f"saves of {number}")
    if saves.random() < 0.2 and not plain:
        arrivals = [Arrival(at_s, replace(spec, saves=saves.random() < 0.6)) for at_s, spec in keywords["trace"].arrivals]
        keywords["trace"] = Trace.of("fuzz", "fuzz", arrivals)
    return Setup(number, keywords, cluster, resume_in_place=saves.random() < 0.5 and not plain)


def _with_tactics(dice: random.Random, keywords: dict[str, Any]) -> None:
    """In a third of all set-ups jobs are packed by trials, or take turns as under Gandiva; some can be parked."""
    if dice.random() >= 0.33:
        return
    if dice.random() < 0.4:
        keywords["policy"] = dice.choice(("gandiva", "gandiva:slice_seconds=10", "gandiva:slice_seconds=20,patience_slices=2"))
        keywords.pop("wait_for_locality", None)
    packs = "colocation=true" in str(keywords["policy"]) or bool(getattr(keywords["policy"], "colocation", False))
    if not keywords.get("wait_for_locality") and not packs:
        keywords["tactics"] = "pack"
    if dice.random() < 0.5:
        keywords["park"] = dice.choice(("link", "driver"))
        keywords["measurement_noise"] = dice.choice((0.0, 0.1))
        arrivals = [
            Arrival(at_s, replace(spec, gpu_gib=dice.choice((None, 2.0, 6.0, 11.0)), least_gib=None, parked_gib=None))
            for at_s, spec in keywords["trace"].arrivals
        ]
        keywords["trace"] = Trace.of("fuzz", "fuzz", arrivals)


def _make_elastic(dice: random.Random, keywords: dict[str, Any], plain: bool) -> None:
    """In a quarter of all set-ups, and in most of those whose policy is made for it, jobs accept several sizes, and some change
    theirs while they run. A larger batch is not always worth as much."""
    if dice.random() >= (0.8 if str(keywords["policy"]).startswith(("goodput", "optimus", "ones")) else 0.25):
        return
    if dice.random() < 0.5:
        noise = {profile: dice.choice((20.0, 200.0, 5000.0)) for profile in PROFILES}
        curve = {32: 400.0, 64: 220.0, 128: 140.0}
        known = dice.choice((Efficiency(noise=noise), Efficiency(curves=dict.fromkeys(PROFILES, curve))))
        keywords["rates"] = replace(keywords["rates"], efficiency=known)
    batches: dict[tuple[str, str, int, int], float] = {}
    if not plain and dice.random() < 0.4:
        for (profile, card, gpus), rate in keywords["rates"].table.items():
            batches |= {(profile, card, gpus, size): rate * dice.choice((0.3, 0.5, 0.8)) * 64 / size for size in (32, 128)}
        keywords["rates"] = replace(keywords["rates"], batches=batches)
    if not plain and dice.random() < 0.3:
        keywords["resize_seconds"] = 2.0
    arrivals = []
    for submitted_s, spec in keywords["trace"].arrivals:
        if spec.gpus >= 1 and dice.random() < 0.7:
            counts = tuple(dice.sample((1, 2, 3, 4, 6, 8), dice.randrange(0, 4)))
            sizes = {"batch_size": 64, "batch_sizes": (32, 128)} if dice.random() < 0.4 else {}
            epoch = dice.choice((None, max(round(spec.steps / 10, 1), 0.1)))
            spec = replace(spec, gpu_counts=counts, can_resize=dice.random() < 0.6, epoch_steps=epoch, **sizes)
        arrivals.append(Arrival(submitted_s, spec))
    keywords["trace"] = Trace.of("fuzz", "fuzz", arrivals)


def _extras(dice: random.Random, policy: Any, cluster: Cluster, scores: Path) -> dict[str, Any]:
    """Options that go with some set-ups only."""
    found: dict[str, Any] = {}
    packs = "colocation=true" in str(policy) or needs_of(policy).colocation
    if dice.random() < 0.25 and not packs:
        found["wait_for_locality"] = True
    if dice.random() < 0.2:
        found["known_rates"] = dice.choice((0.2, 0.5))
    if dice.random() < 0.3:
        found |= _variability(dice, cluster, scores)
    return found


def _cluster(dice: random.Random) -> Cluster:
    return _host_memory(dice, Cluster.parse(dice.choice(CLUSTERS)))


def _changing(dice: random.Random, cluster: Cluster, path: Path) -> Path:
    """Nodes join, some of them leave again, with a warning or without, and others are drained for a while."""
    lines = ["nodes:"]
    for node in cluster.nodes:
        rack = f", rack: {node.rack}" if node.rack else ""
        memory = f", host_memory: {node.host_gib:g} GiB" if node.host_gib else ""
        lines.append(f"  - {{name: {node.name}, accelerator: {node.accelerator}, gpus: {node.gpus}{rack}{memory}}}")
    lines.append("events:")
    for number in range(dice.randrange(1, 4)):
        at_s = dice.randrange(1, 400)
        lines.append(
            f"  - {{at: {at_s}s, join: {{name: new{number}, accelerator: {dice.choice(TYPES)}, gpus: {dice.randrange(1, 5)}}}}}"
        )
        if dice.random() < 0.6:
            warning = dice.choice(("", ", warning: 30s"))
            lines.append(f"  - {{at: {at_s + dice.randrange(40, 600)}s, leave: new{number}{warning}}}")
    if dice.random() < 0.5:
        at_s, name = dice.randrange(1, 300), dice.choice(cluster.nodes).name
        lines += [f"  - {{at: {at_s}s, drain: {name}}}", f"  - {{at: {at_s + dice.randrange(10, 300)}s, undrain: {name}}}"]
    path.write_text("\n".join(lines) + "\n")
    return path


def _host_memory(dice: random.Random, plain: Cluster) -> Cluster:
    """Some nodes can hold parked jobs."""
    nodes = [Node(n.name, n.accelerator, n.gpus, n.rack, dice.choice((0.0, 2.0, 8.0, 64.0))) for n in plain.nodes]
    return Cluster.of(nodes, plain.text)


def _policy(dice: random.Random) -> Any:
    """Mostly built-in ones; some that only tests have."""
    own = (Evenly, Crowded, Hinted, HintedUnits, lambda: Hierarchical(TENANTS), lambda: Hierarchical(TENANTS, colocation=True))
    if dice.random() < 0.25:
        return dice.choice(own)()
    return _spelled(dice, POLICIES, dice.choice(tuple(POLICIES)))


def _spelled(dice: random.Random, table: dict[str, dict[str, tuple[str, ...]]], name: str) -> str:
    options = [f"{key}={dice.choice(values)}" for key, values in table[name].items() if dice.random() < 0.4]
    if not options:
        return name
    return f"{name}{',' if ':' in name else ':'}{','.join(options)}"


def _moments(dice: random.Random, preset: str) -> dict[str, Any]:
    """When decisions are taken."""
    if preset in ("gavel", "blox"):
        found: dict[str, Any] = dice.choice(({}, {}, {}, {"decide": "events"}, {"decide": "both"}))
    else:
        found = dice.choice(({}, {}, {"decide": "rounds"}, {"decide": "both"}))
    if found.get("decide") in ("rounds", "both") or dice.random() < 0.2:
        found = {**found, "round_seconds": dice.choice((15.0, 60.0, 360.0))}
    return found


def _physics(dice: random.Random, cluster: Cluster) -> dict[str, Any]:
    """What things cost, and how they fail."""
    found: dict[str, Any] = {}
    for name, values in (
        ("launch_seconds", (0.0, 2.0, 7.5)),
        ("checkpoint_seconds", (0.0, 3.0)),
        ("restore_seconds", (0.0, 1.0)),
        ("spread_penalty", (1.0, 1.6, "1.5/1.2")),
    ):
        if dice.random() < 0.3:
            found[name] = dice.choice(values)
    if dice.random() < 0.2:
        found |= {"node_mtbf_seconds": dice.choice((600.0, 3000.0)), "node_repair_seconds": dice.choice((30.0, 400.0))}
        found["checkpoint_every_seconds"] = dice.choice((20.0, 60.0))
    if dice.random() < 0.15:
        found["gpu_speed"] = np.array([dice.choice((0.5, 0.9, 1.0, 1.3)) for _ in range(cluster.gpus)])
    return found


def _rates(dice: random.Random) -> Rates:
    """Measured rates, some of them 0, and pairs that really share."""
    table, pairs = {}, {}
    for profile in PROFILES:
        for card in TYPES:
            speed = dice.choice((0.25, 0.5, 1.0, 1.0, 2.0, 3.3))
            for gpus in WIDTHS:
                fits = card == "V100" or dice.random() < 0.9
                table[profile, card, gpus] = speed * gpus**0.8 if fits else 0.0
    for number, one in enumerate(PROFILES):
        for other in PROFILES[number:]:
            for card in TYPES:
                if dice.random() < 0.7:
                    for gpus in WIDTHS:
                        alone = table[one, card, gpus], table[other, card, gpus]
                        left = dice.choice((0.3, 0.55, 0.8, 0.95)), dice.choice((0.3, 0.55, 0.8, 0.95))
                        if min(alone) > 0:
                            pairs[one, other, card, gpus] = (alone[0] * left[0], alone[1] * left[1])
    return Rates(table=table, pairs=pairs, speeds=dict.fromkeys(TYPES, 1.0))


def _variability(dice: random.Random, cluster: Cluster, path: Path) -> dict[str, Any]:
    """How slow each GPU is, in a file as users write it."""
    lines = ["gpu,class,score"]
    for gpu in range(cluster.gpus):
        for name in ("A", "B"):
            lines.append(f"{gpu},{name},{dice.choice((0.95, 1.0, 1.0, 1.05, 1.4, 2.2))}")
    path.write_text("\n".join(lines) + "\n")
    found: dict[str, Any] = {"variability": path}
    if dice.random() < 0.4:
        found["learn_variability"] = True
    if dice.random() < 0.3:
        found["cordon_slower_than"] = 1.5
    return found


def _trace(dice: random.Random, cluster: Cluster, rates: Rates) -> Trace:
    """Jobs that can run somewhere: parkable ones, owned by tenants, with deadlines, some of them at the same instant."""
    now_s, arrivals = 0.0, []
    busy, parts = dice.choice((5.0, 40.0, 150.0)), dice.random() < 0.3
    for number in range(dice.randrange(2, 22)):
        now_s += dice.choice((0.0, round(dice.expovariate(1 / busy), dice.randrange(3))))
        spec = _spec(dice, number, parts)
        widest = max(
            (
                gpus
                for card, gpus in zip(cluster.pools, cluster.pool_gpus.tolist(), strict=True)
                if not spec.accelerators or card in spec.accelerators
            ),
            default=0,
        )
        runs = any(
            spec.width <= gpus
            and (not spec.accelerators or card in spec.accelerators)
            and rates.rate(spec.profile, card, spec.width)[0] > 0
            for card, gpus in zip(cluster.pools, cluster.pool_gpus.tolist(), strict=True)
        )
        if widest and runs:
            arrivals.append(Arrival(now_s, spec))
    return Trace.of("fuzz", "fuzz", arrivals or [Arrival(0.0, JobSpec(steps=50.0))])


def _spec(dice: random.Random, number: int, parts: bool) -> JobSpec:
    park = dice.random() < 0.5
    return JobSpec(
        name=f"job-{number}",
        gpus=dice.choice((0.5, 0.5, 0.25, 0.3, 0.7, 1, 1, 2)) if parts else dice.choice((1, 1, 1, 2, 2, 3, 4, 8)),
        steps=dice.choice((1.0, 30.0, round(dice.lognormvariate(4.5, 1.3), 1), round(dice.lognormvariate(5.5, 1.0), 3))),
        profile=dice.choice((*PROFILES, *PROFILES, "")),
        accelerators=dice.choice(((), (), (), ("V100",), ("V100", "K80"), ("P100", "T4"))),
        weight=dice.choice((1.0, 1.0, 4.0)),
        slo=dice.choice((None, 1.5, 10.0)),
        tenant=dice.choice(("", "x", "y", "y/z")),
        can_park=park,
        parked_gib=dice.choice((None, 1.0, 4.0)) if park else None,
    )
