"""How a job can be parked, and why so. Pure: what it depends on comes in as a value (`facts.py` looks it up)."""

from dataclasses import dataclass

PRELOAD, SLEEP, EXIT = "preload", "sleep", "exit"
"""Its GPU memory goes to the host by a preloaded allocator; it just sleeps, because its GPUs are pretend ones; it is not parked:
SIGTERM asks it to save and leave."""

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


def how_to_park(facts: ParkingFacts) -> tuple[str, str]:
    """The way, and the reason in words."""
    if not facts.wanted:
        return EXIT, "its spec says park: false"
    if facts.gpus > 1:
        return EXIT, "a job of several GPUs cannot be parked yet"
    if facts.obstacle:
        return EXIT, facts.obstacle
    if not facts.real_gpus:
        return SLEEP, "its GPUs are pretend ones, so it only has to sleep"
    if not facts.torch_found:
        return EXIT, f"{facts.python or 'its Python'} has no PyTorch"
    if facts.cuda_major is None:
        return EXIT, f"the PyTorch of {facts.python} is without CUDA"
    if EXPANDABLE in facts.allocator_options.lower().replace(" ", ""):
        return EXIT, "PYTORCH_CUDA_ALLOC_CONF has expandable_segments, which torch_memory_saver refuses"
    if not facts.library:
        return EXIT, f"torch_memory_saver for CUDA {facts.cuda_major} is not installed; pip install 'rota-scheduler[park]'"
    if facts.library_problem:
        return EXIT, f"torch_memory_saver cannot be loaded: {facts.library_problem}"
    return PRELOAD, f"PyTorch with CUDA {facts.cuda_major}, and torch_memory_saver is there"


def can_sleep(way: str) -> bool:
    """Whether a job that is parked this way keeps its processes."""
    return way in (PRELOAD, SLEEP)
