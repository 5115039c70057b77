"""All checks, in the order in which they are reported."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from rota.agent.constants import NODES
from rota.doctor.diagnosis import Diagnosis, fail
from rota.doctor.file_checks import check_files
from rota.doctor.gpu_checks import check_gpus
from rota.doctor.home_checks import check_home, check_jobs, check_journal
from rota.doctor.machine_checks import check_cgroups, check_limits, check_packages
from rota.doctor.mount_checks import check_mounts
from rota.doctor.ray_checks import check_ray
from rota.doctor.scheduler_checks import FoundScheduler, check_scheduler
from rota.doctor.unknown_attempt_checks import check_unknown_attempts
from rota.folders import state_folder
from rota.wire.home import other_owner


def diagnose(home: Path, files: Sequence[str] = ()) -> Iterator[Diagnosis]:
    """Iterate over the findings. `files` are specs and other files that the user wants to use."""
    yield from _all("packages", check_packages)
    yield from _all("limits", check_limits)
    yield from _all("CPUs and memory", check_cgroups)
    scheduler = FoundScheduler()
    if whose := other_owner(home):
        yield fail("home", whose, "--home with a folder of yours")
    else:
        yield from _all("home", lambda: check_home(home))
        yield from _all("mount", lambda: check_mounts(home, state_folder() / NODES))
        yield from _all("journal", lambda: check_journal(home))
        yield from _all("scheduler", lambda: check_scheduler(home, scheduler))
        yield from _all("unknown attempts", lambda: check_unknown_attempts(home))
        yield from _all("jobs", lambda: check_jobs(home))
    yield from _all("Ray", check_ray)
    yield from _all("GPUs", lambda: check_gpus(scheduler.nodes, home))
    yield from _all("files", lambda: check_files(files))


def _all(check: str, look: Callable[[], Iterable[Diagnosis]]) -> Iterator[Diagnosis]:
    """Run a check. If the check itself raises, report that as a finding, so that the other checks still run."""
    try:
        yield from look()
    except Exception as problem:
        yield fail(check, f"the check itself raised {type(problem).__name__}: {problem}", "report it, with this line")
