"""How a job can be parked, and why so. Pure: what it depends on comes in as a value (`facts.py` looks it up)."""

from dataclasses import dataclass

PRELOAD, DRIVER, SLEEP, EXIT, STAY = "preload", "driver", "sleep", "exit", "stay"
"""Its GPU memory goes to the host by a preloaded allocator, or by the driver's own checkpoint; it just sleeps, because its GPUs
are pretend ones; it is not parked: SIGTERM asks it to save and leave; it does not save either: it is left running."""
NODE = "node"
"""The node that starts it finds out which of these it is."""

EXPANDABLE = "expandable_segments:true"


@dataclass(frozen=True, kw_only=True)
class ParkingFacts:
    """What the way to park a job depends on."""

    wanted: bool = True
    """Its spec does not say `park: false`."""
    gpus: float = 1
    """The most that it may get."""
    real_gpus: bool = False
    python: str = ""
    """The Python that it starts, as far as its command shows."""
    obstacle: str = ""
    """Why no start-up hook can get into it; empty: nothing speaks against it."""
    torch_found: bool = False
    cuda_major: int | None = None
    """Of its PyTorch; None: that is without CUDA."""
    library: str = ""
    """The allocator for this CUDA major; empty: it is not installed."""
    library_path: tuple[str, ...] = ()
    """Folders that it needs to be loaded."""
    library_problem: str = ""
    """Why the allocator can't be loaded."""
    allocator_options: str = ""
    """Its PYTORCH_CUDA_ALLOC_CONF."""
    driver_problem: str = "it was not looked for"
    """Why the driver's checkpoint can't park processes here; empty: it can."""


def choose_park_method(facts: ParkingFacts) -> tuple[str, str]:
    """The way, and the reason in words."""
    if not facts.wanted:
        return EXIT, "its spec says park: false"
    if facts.gpus > 1:
        return EXIT, "a job of several GPUs cannot be parked yet"
    if not facts.real_gpus:
        return (EXIT, facts.obstacle) if facts.obstacle else (SLEEP, "its GPUs are pretend ones, so it only has to sleep")
    problem = preload_problem(facts)
    if not problem:
        return PRELOAD, f"PyTorch with CUDA {facts.cuda_major}, and torch_memory_saver is there"
    if not facts.driver_problem:
        return DRIVER, f"by the driver's checkpoint, because {problem}"
    return EXIT, f"{problem}; nor by the driver's checkpoint: {facts.driver_problem}"


def how_to_park_on_a_node(*, wanted: bool, gpus: float) -> tuple[str, str]:
    """The same of a job of a cluster before it is known on which node it runs: nodes may have other Pythons and drivers."""
    way, why = choose_park_method(ParkingFacts(wanted=wanted, gpus=gpus))
    return (way, why) if way == EXIT else (NODE, "the node that starts it finds out which way")


def preload_problem(facts: ParkingFacts) -> str:
    """Why an allocator that is preloaded can't park it; empty: it can."""
    if facts.obstacle:
        return facts.obstacle
    if not facts.torch_found:
        return f"{facts.python or 'its Python'} has no PyTorch"
    if facts.cuda_major is None:
        return f"the PyTorch of {facts.python} is without CUDA"
    if EXPANDABLE in facts.allocator_options.lower().replace(" ", ""):
        return "PYTORCH_CUDA_ALLOC_CONF has expandable_segments, which torch_memory_saver refuses"
    if not facts.library:
        return f"torch_memory_saver for CUDA {facts.cuda_major} is not installed; pip install 'rota-scheduler[park]'"
    if facts.library_problem:
        return f"torch_memory_saver cannot be loaded: {facts.library_problem}"
    return ""


def park_or_stay(way: str, why: str, what: str = "it does not save its state") -> tuple[str, str]:
    """The same for a job that is not suspended; `what`: why not."""
    return (STAY, f"{what}, and can't be parked: {why}") if way == EXIT else (way, why)


def can_sleep(way: str) -> bool:
    """Whether a job that is parked this way keeps its processes."""
    return way in (PRELOAD, DRIVER, SLEEP, NODE)
