"""Choose the park method of a job, with the reason. This is a pure function of facts, which `facts.py` finds out."""

from dataclasses import dataclass

PRELOAD, DRIVER, SLEEP, EXIT, STAY = "preload", "driver", "sleep", "exit", "stay"
"""Park methods. PRELOAD and DRIVER move the GPU memory to the host, with a preloaded allocator or the driver's checkpoint. SLEEP
only stops the processes, because the GPUs are pretend GPUs. EXIT does not park: the job gets SIGTERM, saves and exits. STAY keeps
a job running that cannot save either."""
NODE = "node"
"""Park method of a cluster's job before its start: the node that starts it chooses one of these."""

EXPANDABLE = "expandable_segments:true"


@dataclass(frozen=True, kw_only=True)
class ParkingFacts:
    """Facts on which the park method depends."""

    wanted: bool = True
    """Whether the job may be parked; false if its spec has `park: false`."""
    gpus: float = 1
    """Maximum number of GPUs of the job."""
    real_gpus: bool = False
    python: str = ""
    """Python that the job starts, as far as its command shows."""
    obstacle: str = ""
    """Reason why the hook cannot run in the job; empty if it can."""
    torch_found: bool = False
    cuda_major: int | None = None
    """Major CUDA version of the job's PyTorch; None if it is built without CUDA."""
    library: str = ""
    """Path of the allocator for this CUDA major; empty if it is not installed."""
    library_path: tuple[str, ...] = ()
    """Folders that the allocator needs for loading."""
    library_problem: str = ""
    """Reason why the allocator cannot be loaded; empty if it can."""
    pages_library: str = ""
    """Path of the library that makes host memory fast; empty if there is none."""
    pages_problem: str = ""
    """Why there is none."""
    allocator_options: str = ""
    """PYTORCH_CUDA_ALLOC_CONF of the job."""
    driver_problem: str = "it was not checked"
    """Reason why the driver's checkpoint cannot park processes here; empty if it can."""


MEMORY_LIMITED = "its spec limits its host memory, and a parked job needs more"
"""Why a job with a limit of host memory is not parked."""


def choose_park_method(facts: ParkingFacts) -> tuple[str, str]:
    """Return the park method, and a sentence with the reason."""
    if not facts.wanted:
        return EXIT, "its spec has park: false"
    if facts.gpus > 1:
        return EXIT, "a job of several GPUs cannot be parked yet"
    if not facts.real_gpus:
        return (
            (EXIT, facts.obstacle) if facts.obstacle else (SLEEP, "its GPUs are pretend GPUs, so its processes are only stopped")
        )
    problem = preload_problem(facts)
    if not problem:
        found = f"PyTorch with CUDA {facts.cuda_major}, and torch_memory_saver is installed"
        return PRELOAD, found + (
            f"; the first time is slow and memory is not checked, because {facts.pages_problem}" if facts.pages_problem else ""
        )
    if not facts.driver_problem:
        return DRIVER, f"with the driver's checkpoint, because {problem}"
    return EXIT, f"{problem}; and not with the driver's checkpoint: {facts.driver_problem}"


def how_to_park_on_a_node(*, wanted: bool, gpus: float) -> tuple[str, str]:
    """Return the park method and the reason for a job of a cluster before it has a node. Nodes may have different Pythons and
    drivers."""
    way, why = choose_park_method(ParkingFacts(wanted=wanted, gpus=gpus))
    return (way, why) if way == EXIT else (NODE, "the node that starts it chooses the method")


def preload_problem(facts: ParkingFacts) -> str:
    """Return why a preloaded allocator cannot park the job; an empty text if it can."""
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
    """Replace EXIT by STAY for a job that must not be suspended. `what` is the reason for that."""
    return (STAY, f"{what}, and can't be parked: {why}") if way == EXIT else (way, why)


def can_sleep(way: str) -> bool:
    """Return whether a job keeps its processes when parked with this method."""
    return way in (PRELOAD, DRIVER, SLEEP, NODE)
