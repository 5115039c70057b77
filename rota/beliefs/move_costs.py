"""Estimated costs of starting, stopping and moving a job."""

from dataclasses import dataclass, field

from rota.model.job import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCosts:
    """Seconds for each GiB that a job holds on a GPU, if that is known. The GPUs of a gang move their memory in parallel. With
    zeros the memory of a job makes no difference."""

    park: float = 0.0
    """Moving a GiB to the host, once the process has used its pages there before, in seconds."""
    first_park: float = 0.0
    """Moving a GiB to the host for the first time in a process, in seconds. Pages that were never touched are expensive."""
    resume: float = 0.0
    """Moving a GiB back from the host, in seconds."""
    save: float = 0.0
    """Saving a GiB to storage, in seconds."""
    load: float = 0.0
    """Loading a GiB from storage, in seconds."""
    context_gib: float = 0.0
    """Memory that a parked process keeps on each of its GPUs, in GiB."""


LINK_SPEED = MemoryCosts(park=0.035, first_park=0.75, resume=0.026, save=1.45, load=0.83, context_gib=0.8)
"""Measured on an H200 with PyTorch: 20 GiB to pinned host memory in 0.7 s and back in 0.5 s, 14 s the first time; 4 GiB to a file
in 5.8 s and back in 3.3 s; 755 to 903 MiB of context stay."""

DRIVER_CHECKPOINT = MemoryCosts(park=0.6, first_park=0.6, resume=0.2, save=1.45, load=0.83, context_gib=0.01)
"""Measured like LINK_SPEED, with the driver's checkpoint of a process: 20 GiB out in 13.1 s and back in 4.4 s, and almost nothing
stays."""


@dataclass(frozen=True, slots=True)
class MoveCosts:
    """Seconds that a job loses when it is stopped and started, in another place or in the same one."""

    launch_seconds: float = 0.0
    checkpoint_seconds: float = 0.0
    """Saving a job whose memory is unknown, in seconds."""
    restore_seconds: float = 0.0
    """Loading a job whose memory is unknown, in seconds."""
    resize_seconds: float = 0.0
    """Resizing a job that can be resized while it runs, in seconds."""
    memory: MemoryCosts = field(default_factory=MemoryCosts)

    @property
    def move_seconds(self) -> float:
        """Seconds to move a job whose memory is unknown."""
        return self.launch_seconds + self.checkpoint_seconds + self.restore_seconds

    @property
    def starts_are_free(self) -> bool:
        """Whether no job loses any time to a start, a move or a resume."""
        memory = self.memory
        return not (self.move_seconds or memory.save or memory.load or memory.resume)

    def move_of(self, spec: JobSpec) -> float:
        """Return the seconds to stop a job and start it elsewhere."""
        return self.launch_seconds + self.save_of(spec) + self.load_of(spec)

    def start_of(self, spec: JobSpec, again: bool) -> float:
        """Return the seconds to start a job; with `again`, from its checkpoint."""
        return self.launch_seconds + (self.load_of(spec) if again else 0.0)

    def leave_of(self, spec: JobSpec) -> float:
        """Return the seconds from the job's last step until its GPUs are free."""
        return 0.0

    def save_of(self, spec: JobSpec) -> float:
        return self.memory.save * spec.resident_gib if self.memory.save and spec.resident_gib else self.checkpoint_seconds

    def load_of(self, spec: JobSpec) -> float:
        return self.memory.load * spec.resident_gib if self.memory.load and spec.resident_gib else self.restore_seconds

    def park_of(self, spec: JobSpec, first: bool = False) -> float:
        """Return the seconds to park a job on its host."""
        return (self.memory.first_park if first else self.memory.park) * (spec.resident_gib or 0.0)

    def resume_of(self, spec: JobSpec) -> float:
        """Return the seconds to resume a parked job."""
        return self.memory.resume * (spec.resident_gib or 0.0)
