"""A study: every input of one simulation, each described once.

`rota.simulate`, the commands, sweeps and the cells of papers all make a `Study`. The flags of the commands, their help and what
`--vary` accepts come from its fields. This file imports nothing large, because commands read it before they start.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rota.compose.docstrings import field_docstrings
from rota.errors import OptionError

if TYPE_CHECKING:
    from rota.beliefs.locality import Locality
    from rota.beliefs.move_costs import MemoryCosts
    from rota.beliefs.rates import Rates
    from rota.model.cluster import Cluster
    from rota.model.placement_view import Placer
    from rota.model.policy import Policy
    from rota.model.units import Floats
    from rota.traces.trace import Trace

CLUSTER = "8xV100 + 8xP100 + 8xK80"
"""The cluster of a study that names none."""

Filters = Mapping[str, str] | Sequence[tuple[str, str]]
"""Columns and the values they must have."""


def read_whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("not a whole number.") from None


def read_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("not a number.") from None


def read_switch(text: str) -> bool:
    words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    if text.strip().lower() not in words:
        raise ValueError("not true or false.")
    return words[text.strip().lower()]


def read_window(text: str) -> tuple[int, int]:
    first, colon, last = text.partition(":")
    if not colon or not all(part.strip().isascii() and part.strip().isdigit() for part in (first, last)):
        raise ValueError("not FIRST:LAST.")
    return int(first), int(last)


def read_filter(text: str) -> tuple[tuple[str, str], ...]:
    column, equals, value = text.partition("=")
    if not equals or not column:
        raise ValueError("not COLUMN=VALUE.")
    return ((column.strip(), value.strip()),)


def read_penalty(text: str) -> float | str:
    """A factor is a number. `Locality.of` reads everything else."""
    try:
        return float(text)
    except ValueError:
        return text


NO_FLAG: Mapping[str, Any] = {"flag": False}
"""For fields that only Python sets."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Study:
    """Every input of one simulation.

    The first paragraph below a field is the help of its flag; the second concerns Python alone. None means that the preset
    decides, or that there is none. The metadata of a field may say how a text is read (`read`; otherwise the type decides), how
    its flag shows that (`metavar`), an `example`, and that there is no flag.
    """

    trace: "str | Path | Trace" = field(kw_only=False)
    """The jobs: a file (.gz too, - for standard input), demo, race, philly-like, synthetic:jobs=500,seed=1, gavel:jobs=500,
    gandiva:, ones:, sia: or tiresias:jobs=480.

    Or a `Trace`."""
    policy: "str | Policy" = "fifo"
    """NAME[:key=value,...], A+B for policy A with placer B, or ./mine.py:Mine.

    Or an object with a method `allocate`."""
    cluster: "str | Path | Cluster" = CLUSTER
    """"36xV100 + 36xP100", nodes: "9x(4xV100)", racks: "2x(9x(4xV100))", a YAML file, or a list of nodes as CSV.

    Or a `Cluster`."""
    placer: "str | Placer | None" = None
    """packed, spread, random, skew, pm-first or pal; packed:sticky=false.

    Or an object with a method `place`."""
    preset: str | None = None
    """ideal: no overheads, equal GPUs; gavel, blox: rounds as theirs. Default: measured overheads."""
    profile: str | Path | None = None
    """Measured rates: our table, Gavel's JSON, or a folder of step times as Pollux or ElasticFlow publish them."""
    profiled: float | None = field(default=None, metadata={"example": "0.3"})
    """Fraction of the measured rates that the scheduler knows; it estimates the rest and learns from what runs.

    Of half the profiles it is told everything."""
    format: str = "auto"
    """auto, rota, gavel, philly, helios, tiresias, pal, pollux, openb or kalos."""
    where: Filters = field(default=(), metadata={"read": read_filter, "example": "cluster=6214e9"})
    """Only rows with COLUMN=VALUE; may be given several times.

    A mapping or pairs of a column and its value."""
    first: int | None = None
    """Only the first N by arrival."""
    jobs: tuple[int, int] | None = field(default=None, metadata={"read": read_window, "example": "100:500"})
    """FIRST:LAST, the jobs that count for averages.

    As a pair of numbers; the last is not included."""
    elastic: str | None = field(default=None, metadata={"example": "batch"})
    """Which other sizes jobs accept: none, gpus (1, 2, 4, ... GPUs, up to four times what they ask for) or batch (other batch
    sizes too). Default: those that the trace gives."""
    drop_oversized: bool = False
    """Leave out jobs that can never fit, and count them."""
    decide: str | None = None
    """events, rounds or both."""
    round_seconds: float | None = None
    """Decide at every multiple of this."""
    seed: int = 0
    """Same seed, same result."""
    launch_seconds: float | None = None
    """What starting a job costs."""
    checkpoint_seconds: float | None = None
    """What saving its state costs."""
    restore_seconds: float | None = None
    """What loading its state costs."""
    resize_seconds: float | None = None
    """What a change of size costs a job that can do it while it runs."""
    checkpoint_every_seconds: float | None = None
    """How often a running job saves its state."""
    park: str | None = None
    """Jobs can sleep on their host, and wake up where they are: link (memory moves at the speed of the link) or driver (by the
    driver's checkpoint). Default: they are written to storage."""
    spread_penalty: "float | str | Sequence[float] | Mapping[str, Any] | Locality | None" = field(
        default=None, metadata={"read": read_penalty, "metavar": "FACTORS"}
    )
    """How many times longer a step takes across nodes; 1.2/1.1 across racks too; vgg19=1.7 by model.

    Anything that `Locality.of` reads."""
    tactics: str = ""
    """What any plan may gain, whatever its policy: pack, grow, defragment, migrate; pack:least_gain=0.1,settle_seconds=120 sets
    options.

    Names with commas between them, each with its options."""
    noise: float | None = field(default=None, metadata={"example": "0.05"})
    """How far measurements of a job are off, as a relative standard deviation."""
    min_run_factor: float | None = field(default=None, metadata={"example": "10"})
    """Minimum run time of an attempt, as a multiple of what starting and stopping the job costs. Default: 10 live, 0 in a
    simulation."""
    wait_for_place: bool = False
    """A job waits until its GPUs can be had close together."""
    node_mtbf_seconds: "float | Sequence[float] | Floats | None" = field(default=None, metadata={"read": read_number})
    """Mean time between failures of a node.

    A number, or one for each node."""
    node_repair_seconds: "float | Sequence[float] | Floats | None" = field(default=None, metadata={"read": read_number})
    """How long a failed node is away.

    A number, or one for each node."""
    tensors: str | Path | None = None
    """Tensors of models as `rota profile tensors --save` wrote them, for the placer skew."""
    variability: str | Path | None = None
    """How slow each GPU is: PAL's folder of runs, or a table of scores."""
    variability_medians: bool = False
    """Of runs take each GPU's median, not one at random."""
    variability_learned: bool = False
    """The scheduler is not told how slow each GPU is, and learns it from step times."""
    cordon_slower_than: float | None = field(default=None, metadata={"example": "1.5"})
    """Take GPUs out of service that take so many times as long."""
    rates: "Rates | None" = field(default=None, metadata=NO_FLAG)
    """True steps per second of a gang on healthy GPUs."""
    memory: "MemoryCosts | None" = field(default=None, metadata=NO_FLAG)
    """What it costs to move what a job holds on its GPUs, in seconds per GiB."""
    gpu_speed: "Sequence[float] | Floats | None" = field(default=None, metadata=NO_FLAG)
    """Relative speed of each GPU, 1 the nominal one; the slowest of a gang decides."""
    whole_steps_seconds: float | None = field(default=None, metadata=NO_FLAG)
    """With rounds of whole steps: jobs run as many whole steps as fit into a round, and rest until the next."""
    ends_every_seconds: float | None = field(default=None, metadata=NO_FLAG)
    """A job that has done its steps gives its GPUs back only at multiples of this."""

    def __post_init__(self) -> None:
        """Values that mean the same become the same."""
        object.__setattr__(self, "where", self.filters)
        if self.jobs is not None:
            object.__setattr__(self, "jobs", tuple(self.jobs))
        for name in ("gpu_speed", "node_mtbf_seconds", "node_repair_seconds"):
            value = getattr(self, name)
            if isinstance(value, Iterable):
                object.__setattr__(self, name, tuple(float(each) for each in value))

    @property
    def filters(self) -> tuple[tuple[str, str], ...]:
        """`where` as pairs."""
        pairs = self.where.items() if isinstance(self.where, Mapping) else self.where or ()
        return tuple((str(column), str(value)) for column, value in pairs)

    def plain(self) -> dict[str, Any]:
        """The fields that differ from their defaults, as JSON has them. `make_study` turns them back into the same study."""
        return {name: _plain(name, value) for name, value in self.said().items()}

    def said(self) -> dict[str, Any]:
        """The trace, and the fields that differ from their defaults."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {each.name: values[each.name] for each in fields(self) if not _same(values[each.name], each.default)}

    def __repr__(self) -> str:
        return f"Study({', '.join(f'{name}={value!r}' for name, value in self.said().items())})"


def make_study(given: Mapping[str, Any]) -> Study:
    """A study from its fields by name."""
    unknown = given.keys() - study_fields().keys()
    if unknown:
        name = min(unknown)
        from rota.files.csv_table import closest

        raise OptionError(
            f"simulate takes no such keyword.{closest(name, study_fields())}",
            field=name,
            value=given[name],
            hint="see help(rota.simulate)",
        )
    return Study(**given)


@functools.cache
def study_fields() -> Mapping[str, Any]:
    """Name -> field of a dataclass, in the order of the class."""
    return {each.name: each for each in fields(Study)}


@functools.cache
def study_help() -> Mapping[str, tuple[str, str]]:
    """Name -> the help of its flag, and what concerns Python alone."""
    found = {}
    for name, text in field_docstrings(Study).items():
        help_text, _, rest = text.partition("\n\n")
        found[name] = (" ".join(help_text.split()), " ".join(rest.split()))
    return found


def read_field(name: str, text: str) -> Any:
    """The value of a field as it is typed. A text that has none is a ValueError that says what it is not."""
    each = study_fields()[name]
    if "read" in each.metadata:
        return each.metadata["read"](text)
    if each.type is bool:
        return read_switch(text)
    if each.type in (int, int | None):
        return read_whole(text)
    if each.type in (float, float | None):
        return read_number(text)
    if name in ("rates", "memory", "gpu_speed"):
        raise ValueError("a text cannot say this: it is set from Python.")
    return text


def _same(value: Any, default: Any) -> bool:
    return default is not MISSING and type(value) is type(default) and bool(value == default)


def _plain(name: str, value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Path):
        return str(value) if value.is_absolute() else f"./{value}"  # with the dot it is never the name of a built-in trace
    if isinstance(value, Mapping):
        return {str(key): _plain(name, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(name, each) for each in value]
    if name == "spread_penalty":
        return str(value)
    raise OptionError("is an object, which a file cannot hold.", field=name, value=type(value).__name__, hint="give its name")
