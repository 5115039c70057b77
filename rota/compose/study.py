"""A study: every input of one simulation, each described once.

`rota.simulate`, the commands, sweeps and the cells of papers all make a `Study`. The flags of the commands, their help and the
names that `--vary` accepts come from its fields. This file imports nothing large, because every command reads it at its start.
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
"""Default cluster of a study."""

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
    """Read a factor as a number. `Locality.of` reads everything else."""
    try:
        return float(text)
    except ValueError:
        return text


NO_FLAG: Mapping[str, Any] = {"flag": False}
"""Metadata of fields that only Python sets."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Study:
    """Every input of one simulation.

    The first paragraph below a field is the help of its flag; the second is only for Python. None means that the preset decides,
    or that there is none. The metadata of a field may set how a text is read (`read`; by default the type decides), the name of
    the flag's value (`metavar`), an `example`, and that there is no flag.
    """

    trace: "str | Path | Trace" = field(kw_only=False)
    """Jobs: a file (also .gz, or - for standard input), demo, race, philly-like, synthetic:jobs=500,seed=1, gavel:jobs=500,
    gandiva:, ones:, sia: or tiresias:jobs=480.

    Or a `Trace`."""
    policy: "str | Policy" = "fifo"
    """Policy: NAME[:key=value,...], A+B for policy A with placer B, or ./mine.py:Mine.

    Or an object with a method `allocate`."""
    cluster: "str | Path | Cluster" = CLUSTER
    """GPUs "36xV100 + 36xP100", nodes "9x(4xV100)", racks "2x(9x(4xV100))", a YAML file, or a CSV list of nodes.

    Or a `Cluster`."""
    placer: "str | Placer | None" = None
    """Placer: packed, spread, random, skew, pm-first or pal; packed:sticky=false.

    Or an object with a method `place`."""
    preset: str | None = None
    """ideal (no overheads), gavel or blox (their rounds). Default: measured overheads."""
    profile: str | Path | None = None
    """Rates: Rota's table, Gavel's JSON, or step times of Pollux or ElasticFlow."""
    known_rates: float | None = field(default=None, metadata={"example": "0.3"})
    """Fraction of the measured rates that the scheduler knows; it learns the rest.

    All rates of half of the profiles are always known."""
    format: str = "auto"
    """Format: auto, rota, gavel, philly, helios, tiresias, pal, pollux, openb, kalos, sacct or kueue."""
    where: Filters = field(default=(), metadata={"read": read_filter, "example": "cluster=6214e9"})
    """Keep only rows with COLUMN=VALUE. Repeatable.

    A mapping, or pairs of a column and its value."""
    first: int | None = None
    """Keep only the first N jobs by arrival."""
    window: tuple[int, int] | None = field(default=None, metadata={"read": read_window, "example": "100:500"})
    """Jobs FIRST:LAST that count towards averages.

    A pair of numbers; the last job is not included."""
    elastic: str | None = field(default=None, metadata={"example": "batch"})
    """Other sizes that jobs accept: none, gpus (1, 2, 4, ... GPUs, up to four times the requested number) or batch (other batch
    sizes too). Default: as in the trace."""
    drop_oversized: bool = False
    """Leave out jobs that can never fit the cluster, and count them."""
    decide: str | None = None
    """When to schedule: events, rounds or both."""
    round_seconds: float | None = None
    """Length of a round, in seconds."""
    seed: int = 0
    """Random seed; the same seed gives the same result."""
    launch_seconds: float | None = None
    """Time to start a job, in seconds."""
    checkpoint_seconds: float | None = None
    """Time to save a job's state, in seconds."""
    restore_seconds: float | None = None
    """Time to load a job's state, in seconds."""
    resize_seconds: float | None = None
    """Time to resize a job that can be resized in place, in seconds."""
    checkpoint_every_seconds: float | None = None
    """Interval between checkpoints of a running job, in seconds."""
    park: str | None = None
    """Park suspended jobs: link (at link speed) or driver. Default: save to storage."""
    spread_penalty: "float | str | Sequence[float] | Mapping[str, Any] | Locality | None" = field(
        default=None, metadata={"read": read_penalty, "metavar": "FACTORS"}
    )
    """Slowdown across nodes, as a factor; 1.2/1.1 also across racks; vgg19=1.7 by model.

    Anything that `Locality.of` reads."""
    tactics: str = ""
    """Tactics: pack, grow, defragment, migrate, ./mine.py:Mine; pack:min_gain=0.1.

    Names separated by commas, each with its options, such as pack:min_gain=0.1,settle_seconds=120."""
    tenants: str | Path | None = None
    """Tenants: a YAML file of their guarantees, caps and weights."""
    measurement_noise: float | None = field(default=None, metadata={"example": "0.05"})
    """Measurement noise of a job's rate, as a relative standard deviation."""
    min_run_factor: float | None = field(default=None, metadata={"example": "10"})
    """Minimum run time, in costs of a start and a stop. Default: 10 live, 0 simulated."""
    wait_for_locality: bool = False
    """Make jobs wait until their GPUs are close together."""
    node_mtbf_seconds: "float | Sequence[float] | Floats | None" = field(default=None, metadata={"read": read_number})
    """Mean time between failures of a node, in seconds.

    A number, or one for each node."""
    node_repair_seconds: "float | Sequence[float] | Floats | None" = field(default=None, metadata={"read": read_number})
    """Time until a failed node is back, in seconds.

    A number, or one for each node."""
    tensors: str | Path | None = None
    """Table of model tensors by `rota profile tensors --save`, for the placer skew."""
    variability: str | Path | None = None
    """Slowness of each GPU: PAL's folder of runs, or a table of scores."""
    variability_medians: bool = False
    """Use the median of a GPU's runs as its score, not one random run."""
    learn_variability: bool = False
    """Hide from the scheduler how slow each GPU is; it learns that from step times."""
    cordon_slower_than: float | None = field(default=None, metadata={"example": "1.5"})
    """Cordon GPUs that are at least this many times slower than the median."""
    rates: "Rates | None" = field(default=None, metadata=NO_FLAG)
    """True rate of a gang on healthy GPUs, in steps per second."""
    memory: "MemoryCosts | None" = field(default=None, metadata=NO_FLAG)
    """Cost of moving a job's GPU memory, in seconds per GiB."""
    gpu_speed: "Sequence[float] | Floats | None" = field(default=None, metadata=NO_FLAG)
    """Relative speed of each GPU, 1 if nominal. A gang is as fast as its slowest GPU."""
    whole_steps_seconds: float | None = field(default=None, metadata=NO_FLAG)
    """Length of rounds in which jobs run only as many whole steps as fit, in seconds; None if steps may cross rounds."""
    completion_poll_seconds: float | None = field(default=None, metadata=NO_FLAG)
    """Interval at whose multiples finished jobs release their GPUs, in seconds; None if at once."""

    def __post_init__(self) -> None:
        """Normalise equivalent values."""
        object.__setattr__(self, "where", self.filters)
        if self.window is not None:
            object.__setattr__(self, "window", tuple(self.window))
        for name in ("gpu_speed", "node_mtbf_seconds", "node_repair_seconds"):
            value = getattr(self, name)
            if isinstance(value, Iterable):
                object.__setattr__(self, name, tuple(float(each) for each in value))

    @property
    def filters(self) -> tuple[tuple[str, str], ...]:
        """Return `where` as pairs."""
        pairs = self.where.items() if isinstance(self.where, Mapping) else self.where or ()
        return tuple((str(column), str(value)) for column, value in pairs)

    def plain(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, for JSON. `make_study` turns them into an equal study."""
        return {name: _plain(name, value) for name, value in self.said().items()}

    def said(self) -> dict[str, Any]:
        """Return the trace, and the fields that differ from their defaults."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {each.name: values[each.name] for each in fields(self) if not _same(values[each.name], each.default)}

    def __repr__(self) -> str:
        return f"Study({', '.join(f'{name}={value!r}' for name, value in self.said().items())})"


def make_study(given: Mapping[str, Any]) -> Study:
    """Make a study from its fields by name."""
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
    """Return name -> field of a study, in the order of the class."""
    return {each.name: each for each in fields(Study)}


@functools.cache
def study_help() -> Mapping[str, tuple[str, str]]:
    """Return name -> the help of the flag, and the additional text for Python."""
    found = {}
    for name, text in field_docstrings(Study).items():
        help_text, _, rest = text.partition("\n\n")
        found[name] = (" ".join(help_text.split()), " ".join(rest.split()))
    return found


def read_field(name: str, text: str) -> Any:
    """Parse the text of a field. Raise ValueError if the text is not a valid value."""
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
        raise ValueError("it can only be set from Python.")
    return text


def _same(value: Any, default: Any) -> bool:
    return default is not MISSING and type(value) is type(default) and bool(value == default)


def _plain(name: str, value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Path):
        return str(value) if value.is_absolute() else f"./{value}"  # with the dot it cannot be the name of a built-in trace
    if isinstance(value, Mapping):
        return {str(key): _plain(name, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(name, each) for each in value]
    if name == "spread_penalty":
        return str(value)
    raise OptionError(
        "is an object, which cannot be written to a file.", field=name, value=type(value).__name__, hint="give its name"
    )
