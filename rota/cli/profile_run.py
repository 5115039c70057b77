"""`rota profile run`: measure the rate of a job on this machine with each option that it accepts."""

import contextlib
import dataclasses
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli import common_flags as flag
from rota.errors import OptionError, RotaError

if TYPE_CHECKING:
    from rota.live.profiling import ProfileOption, ProfileResult, Profiling
    from rota.wire.submission import Submission

GRACE_SECONDS = 10.0
"""Time that a measured job has to stop, in seconds. Its checkpoint is deleted."""
INTERRUPTED = 130


def run(
    spec: Annotated[
        str, typer.Argument(metavar="SPEC.yaml", help="Job spec, as for rota submit. The job must report its steps.")
    ],
    to: Annotated[
        str | None, typer.Option("--out", metavar="FILE.csv", help="Table of rates to add to. Default: SPEC-rates.csv.")
    ] = None,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds",
            parser=flag.number("--seconds", like="30"),
            metavar="S",
            help="How long to measure each option, in seconds.",
        ),
    ] = 30.0,
    patience: Annotated[
        float,
        typer.Option(
            "--step-timeout", parser=flag.number("--step-timeout"), metavar="S", help="Longest wait for a step, in seconds."
        ),
    ] = 300.0,
    pretend: Annotated[
        str | None,
        typer.Option("--pretend", metavar="CLUSTER", help='Use pretend GPUs: "2xV100 + 1xK80". Default: the real GPUs.'),
    ] = None,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Measure a job on this machine with every accelerator type, GPU count and batch size that it accepts.

    Each option really runs the job for --seconds and then stops it with SIGTERM. The rates go to a table that --profile takes.
    Ctrl-C ends the measurement, and the table keeps the rates measured until then.

    Example: rota profile run job.yaml --out rates.csv
    """
    shaped = flag.shape(output)
    for name, value in (("--seconds", seconds), ("--step-timeout", patience)):
        if not 0 < value < 1e6:
            raise OptionError("must be more than 0, and finite.", field=name, value=value, hint=f"{name} 30")
    from rota.beliefs.rates import Rates
    from rota.compose.accelerator_types import type_assumptions
    from rota.live.driver import Driver
    from rota.live.local_channel import LocalChannel
    from rota.live.profiling import Profiling, profile_key, profile_options
    from rota.profiles.write_rates import check_table
    from rota.server.serve import this_machine

    job = _job(spec)
    path = Path(to or f"{Path(spec).stem}-rates.csv")
    check_table(path)
    cluster, gpus = this_machine(pretend)
    if gpus is None and pretend is None:
        raise OptionError("this machine has no GPU that NVML sees.", field="GPUs", hint='rota doctor, or --pretend "2xV100"')
    if gpus is not None:
        _refuse_a_scheduler(home)
    else:
        type_assumptions(
            cluster, Rates(), typed=True
        )  # raises for a mistyped type; the assumed speed of types does not matter here
    key = profile_key(job, Path(spec).stem)
    options = profile_options(job, key, cluster)
    folder = Path(tempfile.mkdtemp(prefix="rota-profile-"))
    try:
        profiling = Profiling(
            Driver(folder, LocalChannel(folder, cluster, gpus), lease_grace_seconds=GRACE_SECONDS),
            job,
            folder,
            seconds=seconds,
            patience_seconds=patience,
            grace_seconds=GRACE_SECONDS,
            busy=_busy() if gpus is not None else frozenset(),
        )
        results, interrupted = _measured(profiling, options, path, shaped)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _print_results(results, key, job, path, spec, shaped)
    if interrupted:
        sys.stderr.write(f"Stopped. {sum(each.steps_per_second is not None for each in results)} rates are kept in {path}.\n")
        raise typer.Exit(INTERRUPTED)
    if not any(each.steps_per_second is not None for each in results):
        raise typer.Exit(1)


def _job(spec: str) -> "Submission":
    """Read a spec as if the job were submitted from this folder."""
    from rota.errors import SpecError
    from rota.wire.client import passed_environment, user_name
    from rota.wire.spec import read_spec
    from rota.wire.submission import Submission

    if Path(spec).suffix.lower() not in (".yaml", ".yml"):
        raise OptionError("is not a job spec (.yaml).", field="SPEC", value=spec, hint="rota profile run job.yaml")
    read = read_spec(spec)
    if read.progress is None:
        hint = "progress: 'step (\\d+)', or progress: session for a script with rota.train"
        raise SpecError("the job must report its steps.", where=spec, field="progress", hint=hint)
    return Submission(read, user_name(), str(Path.cwd()), passed_environment(read.env))


def _refuse_a_scheduler(home: str | None) -> None:
    """Raise OptionError if a scheduler is running: it could start jobs on the GPUs that are measured."""
    from rota.wire.client import connect

    try:
        status = connect(home).status()
    except RotaError:
        return
    if not status.pretend:
        hint = "rota down, and wait for its jobs; then the same command again"
        raise OptionError("a scheduler uses the same GPUs.", field="process", value=status.daemon_pid, hint=hint)


def _busy() -> frozenset[str]:
    """Return the GPUs on which a process computes already."""
    from rota.agent.gpu_readings import GpuReader

    reader = GpuReader()
    found = {uuid: reading.processes for uuid, reading in reader.read().items()}
    reader.close()
    return frozenset(uuid for uuid, processes in found.items() if processes)


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Make SIGTERM end the measurement as Ctrl-C does."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _measured(
    profiling: "Profiling", options: "list[ProfileOption]", path: Path, shaped: str
) -> "tuple[list[ProfileResult], bool]":
    """Return the results, and whether the measurement was interrupted. Each rate is written to the file at once."""
    from rota.profiles.write_rates import MeasuredRate, write_rates

    results: list[ProfileResult] = []
    with _stoppable():
        try:
            for number, option in enumerate(options, start=1):
                with _shown(f"{number} of {len(options)}: {option}") as show_fraction:
                    result = profiling.measure(option, show_fraction)
                results.append(result)
                if result.steps_per_second is not None:
                    write_rates(path, [MeasuredRate(option.profile, option.accelerator, option.gpus, result.steps_per_second)])
                if shaped in ("table", "wide"):
                    typer.echo(_line(result))
            profiling.close()
        except KeyboardInterrupt:
            _end(profiling)
            return results, True
        except BaseException:
            _end(profiling)
            raise
    return results, False


def _end(profiling: "Profiling") -> None:
    """Stop the running job. A second Ctrl-C kills it at once."""
    try:
        profiling.close()
    except KeyboardInterrupt:
        profiling.kill()


@contextlib.contextmanager
def _shown(what: str) -> Iterator[Any]:
    """Show the progress of one option on standard error: a line that is updated on a terminal, one line elsewhere."""
    if not sys.stderr.isatty():
        sys.stderr.write(f"measuring {what}\n")
        yield lambda part: None
        return

    def show(part: float) -> None:
        sys.stderr.write(f"\r\x1b[Kmeasuring {what}  {part:4.0%}")
        sys.stderr.flush()

    sys.stderr.write(f"\r\x1b[Kmeasuring {what}  waiting for its first step")
    sys.stderr.flush()
    try:
        yield show
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def _line(result: "ProfileResult") -> str:
    from rota.cli import job_text

    if result.steps_per_second is None:
        return f"{result.option!s:<22}  not measured: {job_text.clean(result.problem)}"
    facts = [f"{result.steps:,.0f} steps in {result.seconds:.1f} s"]
    if result.first_step_seconds is not None:
        facts.append(f"first after {result.first_step_seconds:.1f} s")
    if result.utilization is not None:
        facts.append(f"{result.utilization:.0%} busy")
    if result.peak_gib is not None:
        facts.append(f"{result.peak_gib:.3g} GiB")
    return f"{result.option!s:<22}  {result.steps_per_second:.4g} steps/s   {', '.join(facts)}"


def _print_results(results: "list[ProfileResult]", key: str, job: "Submission", path: Path, spec: str, shaped: str) -> None:
    from rota.cli.output import say

    rows = [{**dataclasses.asdict(each.option), **_figures(each)} for each in results]
    if shaped == "json":
        say(shaped, value={"profile": key, "table": str(path), "rates": rows})
    elif shaped == "csv":
        say(shaped, rows=rows)
    elif any(each.steps_per_second is not None for each in results):
        typer.echo(f"The rates are in {path}. Use them: rota up --profile {path}")
        if job.spec.profile != key:
            typer.echo(f"Put `profile: {key}` into {spec}.")


def _figures(result: "ProfileResult") -> dict[str, Any]:
    plain = dataclasses.asdict(result)
    del plain["option"]
    return plain
