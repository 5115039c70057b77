"""Believed costs of starting, stopping and moving a job."""

from dataclasses import dataclass, field

from rota.model.job import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCosts:
    """Seconds for each GiB that a job holds on a GPU, where it is known how much that is. The GPUs of a gang move theirs side by
    side. All zero: what a job holds makes no difference."""

    park: float = 0.0
    """To the host, once its pages there have been used before."""
    first_park: float = 0.0
    """The first time in the life of a process: pages of the host that were never touched are dear."""
    resume: float = 0.0
    """Back from the host."""
    save: float = 0.0
    """To storage."""
    load: float = 0.0
    """From storage."""
    context_gib: float = 0.0
    """What a process keeps on each of its GPUs while it is parked."""


LINK_SPEED = MemoryCosts(park=0.035, first_park=0.75, resume=0.026, save=1.45, load=0.83, context_gib=0.8)
"""Measured on an H200 with PyTorch: 20 GiB to pinned host memory in 0.7 s and back in 0.5 s, 14 s the first time; 4 GiB to a file
in 5.8 s and back in 3.3 s; 755 to 903 MiB of context stay."""

DRIVER_CHECKPOINT = MemoryCosts(park=0.6, first_park=0.6, resume=0.2, save=1.45, load=0.83, context_gib=0.01)
"""The same by the driver's own checkpoint of a process: 20 GiB out in 13.1 s and back in 4.4 s, and almost nothing stays."""


@dataclass(frozen=True, slots=True)
class MoveCosts:
    """Seconds a job loses when it is stopped in one place and started in another, or stopped and started where it is."""

    launch_seconds: float = 0.0
    checkpoint_seconds: float = 0.0
    """To storage, for a job of which it is not known what it holds."""
    restore_seconds: float = 0.0
    """From storage, likewise."""
    resize_seconds: float = 0.0
    """What a change of size costs a job that can do it while it runs."""
    memory: MemoryCosts = field(default_factory=MemoryCosts)

    @property
    def move_seconds(self) -> float:
        """For a job of which it is not known what it holds."""
        return self.launch_seconds + self.checkpoint_seconds + self.restore_seconds

    @property
    def starts_are_free(self) -> bool:
        """Whether no job loses any time to a start, a move or a resume."""
        memory = self.memory
        return not (self.move_seconds or memory.save or memory.load or memory.resume)

    def move_of(self, spec: JobSpec) -> float:
        """Stopped here and started elsewhere."""
        return self.launch_seconds + self.save_of(spec) + self.load_of(spec)

    def start_of(self, spec: JobSpec, again: bool) -> float:
        """Started; `again`: from what it saved."""
        return self.launch_seconds + (self.load_of(spec) if again else 0.0)

    def leave_of(self, spec: JobSpec) -> float:
        """From its last step until its GPUs are free."""
        return 0.0

    def save_of(self, spec: JobSpec) -> float:
        return self.memory.save * spec.resident_gib if self.memory.save and spec.resident_gib else self.checkpoint_seconds

    def load_of(self, spec: JobSpec) -> float:
        return self.memory.load * spec.resident_gib if self.memory.load and spec.resident_gib else self.restore_seconds

    def park_of(self, spec: JobSpec, first: bool = False) -> float:
        """Parked on its host."""
        return (self.memory.first_park if first else self.memory.park) * spec.resident_gib

    def resume_of(self, spec: JobSpec) -> float:
        """Woken where it sleeps."""
        return self.memory.resume * spec.resident_gib
