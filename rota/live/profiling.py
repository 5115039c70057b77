"""Measuring the rates of one job with each option that it accepts on this machine.

Each option is one launch by the driver of this machine, without a scheduler: the same supervisor, the same environment. The job
is stopped with SIGTERM, and killed after its grace period. Its lease is short and renewed, so its processes do not outlive us for
long. Checkpoints go to a temporary folder, if the script uses ROTA_CHECKPOINT_DIR.
"""

import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rota.agent.attempt_files import AttemptStatus
from rota.agent.constants import ENDED
from rota.agent.log import MARKER
from rota.agent.outcome import signal_name
from rota.beliefs.rates import at_size, local_batch
from rota.errors import OptionError
from rota.live.driver import Driver
from rota.live.driver_protocol import DriverContext
from rota.live.requests import to_job_spec
from rota.live.step_rates import MIN_STEPS
from rota.model.cluster import Cluster
from rota.model.commands import Kill, Launch, Renew, Suspend
from rota.model.counted import are, counted
from rota.model.events import Measured
from rota.model.job import JobSpec
from rota.model.options import Kind
from rota.model.units import Ints
from rota.wire.submission import Submission

LOOK_SECONDS = 0.1
LEASE_SECONDS, RENEW_SECONDS = 60.0, 10.0
GONE_SECONDS = 30.0
"""Time within which the processes of a job are gone after its grace period, in seconds."""
LAST_OUTPUT_BYTES = 4096
MAX_LINE_CHARS = 200


@dataclass(frozen=True)
class ProfileOption:
    """One option of the job."""

    profile: str
    """Key of the rate in the table."""
    accelerator: str
    gpus: int
    batch_size: int | None = None
    """Batch size; None if the job does not give one."""

    def __str__(self) -> str:
        batch = "" if self.batch_size is None else f", batch size {self.batch_size}"
        return f"{self.gpus}x{self.accelerator}{batch}"


@dataclass(frozen=True)
class ProfileResult:
    """Outcome of measuring one option."""

    option: ProfileOption
    steps_per_second: float | None
    """Measured steps per second; None if there is no measurement, and `problem` has the reason."""
    steps: float = 0.0
    """Number of measured steps."""
    seconds: float = 0.0
    """Time of the measured steps, in seconds."""
    first_step_seconds: float | None = None
    """Time from the start of the process to its first step, in seconds."""
    utilization: float | None = None
    """Share of time for which the job kept its GPUs busy, from 0 to 1; None if unknown."""
    peak_gib: float | None = None
    """Peak memory on a GPU, in GiB; None if unknown."""
    problem: str = ""


def profile_key(job: Submission, fallback: str) -> str:
    """Return the name of the job's rates in the table: its profile, or its name. If the job accepts several batch sizes, the name
    includes the requested one, so that the rates of the others can be found."""
    spec = job.spec
    key = spec.profile or spec.name or fallback
    if spec.batch is None or len(spec.batch_sizes) < 2 or local_batch(key) or key.endswith(f"/global{spec.batch.size}"):
        return key
    return f"{key}/global{spec.batch.size}"


def profile_options(job: Submission, key: str, cluster: Cluster) -> list[ProfileOption]:
    """Return all options that the job accepts on GPUs of one node here. Raise OptionError if there is none."""
    spec: JobSpec = to_job_spec(job, time.time())
    demand = Kind.of(spec).demand
    counts = spec.gpu_counts or (spec.width,)
    batches = spec.batch_sizes or (spec.batch_size,)
    found = [
        ProfileOption(at_size(key, demand, count, batch or 0), pool, count, batch)
        for pool, widest in zip(cluster.pools, cluster.widest, strict=True)
        if not spec.accelerators or pool in spec.accelerators
        for count in counts
        if count <= widest
        for batch in batches
    ]
    if not found:
        types = " or ".join(spec.accelerators) or "any type"
        raise OptionError(
            f"{counted(min(counts), 'GPU')} of {types} {are(min(counts))} not on one node here.",
            field="gpus",
            value=str(cluster),
            hint="fewer GPUs, other types, or --pretend",
        )
    return found


class Profiling:
    """Measures one option after the other. `close` stops a running job."""

    def __init__(
        self,
        driver: Driver,
        job: Submission,
        folder: Path,
        *,
        seconds: float,
        patience_seconds: float,
        grace_seconds: float,
        busy: Collection[str] = (),
    ) -> None:
        """Prepare the driver. `folder` belongs to the driver, which may write there; `seconds` is the window of a measurement;
        `patience_seconds` is the longest wait for the first step, and for any later one; `busy` has the names of GPUs that other
        processes use."""
        self._driver = driver
        saving = job.spec.checkpoint
        saving = saving.model_copy(update={"dir": str(folder / "checkpoints"), "grace": min(saving.grace, grace_seconds)})
        self._job = replace(job, spec=job.spec.model_copy(update={"checkpoint": saving}))
        Path(self._job.checkpoint_dir).mkdir(parents=True, exist_ok=True)
        self._seconds, self._patience = seconds, patience_seconds
        self._cluster = driver.discover_cluster()
        self._number, self._running = 0, False
        devices = [name for names in driver.devices() for name in names]
        self._free = np.array([name not in busy for name in devices])
        driver.open(
            DriverContext(
                wake=lambda: None,
                submitted=lambda number: self._job,
                clock=time.time,
                cluster=lambda: self._cluster,
                device=lambda gpu: devices[gpu],
            )
        )
        driver.events()

    def measure(self, option: ProfileOption, tell: Callable[[float], None] = lambda part: None) -> ProfileResult:
        """Launch the job with an option, measure it, and stop it. `tell` gets the finished fraction of the window."""
        self._number += 1
        gpus = self._gpus(option)
        if gpus is None:
            return ProfileResult(option, None, problem="other processes use these GPUs; nvidia-smi shows them")
        node, lease_s = int(self._cluster.gpu_node[gpus[0]]), time.time() + LEASE_SECONDS
        self._running = True
        launch = Launch(self._number, 1, 1, 0, gpus, (node,), (0,), 0.0, lease_s=lease_s, batch_size=option.batch_size)
        self._driver.carry_out([launch])
        result = self._watched(option, tell)
        self.stop()
        return result

    def _gpus(self, option: ProfileOption) -> Ints | None:
        """Return free GPUs on one node; None if there are too few."""
        for number, node in enumerate(self._cluster.nodes):
            first = int(self._cluster.node_first[number])
            free = first + self._free[first : first + node.gpus].nonzero()[0]
            if node.accelerator == option.accelerator and len(free) >= option.gpus:
                return free[: option.gpus]
        return None

    def stop(self) -> None:
        """Stop the running job: SIGTERM, its grace period, SIGKILL."""
        if not self._running:
            return
        self._driver.carry_out([Suspend(self._number, 1, 2, (0,))])
        for status, _ in self._looks(self._job.spec.checkpoint.grace + GONE_SECONDS):
            if status is None or status.state == ENDED:
                break
        else:
            self.kill()
        self._driver.acknowledge()
        self._running = False

    def kill(self) -> None:
        """Kill the running job at once."""
        if self._running:
            self._driver.carry_out([Kill(self._number, 1, 3, (0,))])
            for status, _ in self._looks(GONE_SECONDS):
                if status is None or status.state == ENDED:
                    break
        self._running = False

    def close(self) -> None:
        self.stop()
        self._driver.close()

    def _looks(self, seconds: float) -> Iterator[tuple[AttemptStatus | None, list[Measured]]]:
        """Yield the status of the job repeatedly for this many seconds, and keep its lease alive."""
        until = time.monotonic() + seconds
        renew = time.monotonic() + RENEW_SECONDS
        while time.monotonic() < until:
            measured = [event for event in self._driver.events() if isinstance(event, Measured)]
            yield next((each for each in self._driver.inventory() if each.job == self._number), None), measured
            if time.monotonic() >= renew:
                renew = time.monotonic() + RENEW_SECONDS
                self._driver.carry_out([Renew(self._number, 1, (0,), time.time() + LEASE_SECONDS)])
            time.sleep(LOOK_SECONDS)

    def _watched(self, option: ProfileOption, tell: Callable[[float], None]) -> ProfileResult:
        """Watch a launched job until it was measured, has ended, or makes no more steps."""
        status, first, seen, waited_s = None, None, ProfileResult(option, None), time.monotonic()
        for status, measured in self._looks(float("inf")):
            seen = _with_use(seen, measured)
            if status is None or status.state == ENDED:
                break
            if status.stepped_s is not None:
                if first is None or status.steps_done > (seen.steps + first.steps_done):
                    waited_s = time.monotonic()
                first = first or status
                seen = _counted(seen, first, status)
                tell(min(seen.seconds / self._seconds, 1.0))
                if seen.seconds >= self._seconds and seen.steps >= MIN_STEPS:
                    break
            if time.monotonic() - waited_s > self._patience:
                break
        if status is not None and first is not None and status.stepped_s is not None:
            seen = _counted(seen, first, status)  # include what it reported at its end
        if seen.steps >= MIN_STEPS and seen.seconds > 0:
            return replace(seen, steps_per_second=seen.steps / seen.seconds)
        return replace(seen, problem=self._problem(status, seen))

    def _problem(self, status: AttemptStatus | None, seen: ProfileResult) -> str:
        """Return why the job was not measured, with its last output."""
        last = self._last_line()
        said = f"; its output ends: {last}" if last else "; it wrote nothing"
        if status is None or status.state != ENDED:
            steps = f"{seen.steps:,.0f} steps after its first one" if seen.first_step_seconds is not None else "no step"
            pattern = self._job.spec.progress
            found = f"progress: {pattern!r} found" if pattern and pattern != "session" else "it reported"
            return f"{found} {steps} in {self._patience:,.0f} s{said}"
        if status.exit_code == 0:
            return f"it finished after {status.steps_done:,.0f} steps, too soon to be measured{said}"
        how = f"exit code {status.exit_code}" if (status.exit_code or 0) >= 0 else signal_name(-(status.exit_code or 0))
        return f"it failed ({status.problem or how}){said}"

    def _last_line(self) -> str:
        end = self._driver.log_end(self._number)
        piece = self._driver.read_log(self._number, max(end - LAST_OUTPUT_BYTES, 0), LAST_OUTPUT_BYTES)
        lines = piece.data.decode(errors="replace").splitlines()
        said = [line.strip() for line in lines if line.strip() and not line.startswith(MARKER)]
        return said[-1][:MAX_LINE_CHARS] if said else ""


def _counted(seen: ProfileResult, first: AttemptStatus, status: AttemptStatus) -> ProfileResult:
    assert first.stepped_s is not None and status.stepped_s is not None
    started = None if first.started_s is None else max(first.stepped_s - first.started_s, 0.0)
    steps, seconds = status.steps_done - first.steps_done, status.stepped_s - first.stepped_s
    return replace(seen, steps=steps, seconds=seconds, first_step_seconds=started)


def _with_use(seen: ProfileResult, measured: list[Measured]) -> ProfileResult:
    """Add what the driver measured of the job's GPUs: the latest known values."""
    for event in measured:
        busy, gib = event.utilization.item(-1), event.peak_gib.item(-1)
        seen = replace(seen, utilization=busy) if busy == busy else seen
        seen = replace(seen, peak_gib=max(gib, seen.peak_gib or 0.0)) if gib == gib else seen
    return seen
