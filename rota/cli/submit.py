"""`rota submit`: submit a job."""

import math
import shlex
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli import common_flags as flag
from rota.cli.config_defaults import from_files
from rota.cli.quick import Quick
from rota.errors import InputError, OptionError, RotaError, SpecError
from rota.model.counted import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from rota.files.tree import TreeEntry
    from rota.wire.rows import JobRow

SPECS = (".yaml", ".yml")
SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm", ".py")
FLAGS = {"accelerators": "accelerator"}
"""Field of a spec -> its flag, where the two names differ."""
ClickError: Any = typer.BadParameter.__base__.__base__  # type: ignore[union-attr]
"""Error of the command-line library."""
_HINT = "rota submit job.yaml, rota submit train.sh, or rota submit -- python train.py"


class Submit(Quick):
    """A command that does not parse the words after `--`: they are the job's command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ours = args[: args.index("--")] if "--" in args else args
        ctx.meta["rota.command"] = args[len(ours) + 1 :] if len(ours) < len(args) else None
        try:
            return super().parse_args(ctx, [*ours])  # a copy, since the parser takes words out
        except ClickError as error:
            raise _hint_at_arguments(error, ours) from None


def _hint_at_arguments(error: Exception, words: list[str]) -> Exception:
    """Return the error; with a better hint if an unknown flag follows a script, since it may be meant for the script."""
    script = next((i for i, word in enumerate(words) if word.lower().endswith(SCRIPTS)), len(words))
    flag = getattr(error, "option_name", None)
    if flag is None or flag not in {word.partition("=")[0] for word in words[script:]}:
        return error
    again = shlex.join(["rota", "submit", *words[: script + 1], "--", *words[script + 1 :]])
    return OptionError("is not a flag of rota submit; arguments of a script follow --.", field=flag, hint=again)


COMMAND = Submit


def submit(
    context: typer.Context,
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="SPEC.yaml | SCRIPT | -- CMD...", help="Spec, script (.sh, .py) or command to run."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Job name. Default: the file's name, or the job's number.")] = None,
    gpus: Annotated[
        float | None,
        typer.Option(
            "--gpus",
            parser=flag.number("--gpus", like="0.5"),
            metavar="N",
            help="Number of GPUs, or a fraction of one such as 0.5. Default: 1.",
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option("--steps", parser=flag.number("--steps", whole=True), metavar="N", help="Optimiser steps of the whole job."),
    ] = None,
    accelerator: Annotated[
        str | None,
        typer.Option("--accelerator", metavar="T,...", help="Accepted accelerator types, such as A100,V100. Default: any."),
    ] = None,
    weight: Annotated[
        float | None,
        typer.Option("--weight", parser=flag.number("--weight"), metavar="W", help="Weight under fair policies. Default: 1."),
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option("--priority", parser=flag.number("--priority", whole=True), metavar="N", help="Priority. Default: 0."),
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option("--after", metavar="[WHEN:]JOB", help="Start after this job: 412, ended:412 or failed:412. Repeatable."),
    ] = None,
    max_run_time: Annotated[
        str | None,
        typer.Option("--max-run-time", metavar="TIME", help="Longest run time, such as 12h. Default: no limit."),
    ] = None,
    array: Annotated[
        str | None,
        typer.Option("--array", metavar="INDICES", help="Job array: 0-99 or 0,3,7-9; 0-99%8 runs 8 at once; %8 with --sweep."),
    ] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option("--sweep", metavar="NAME=VALUES", help="Job for each value: lr=0.1,0.01 or seed=0..4. Repeatable."),
    ] = None,
    progress: Annotated[
        str | None,
        typer.Option(
            "--progress",
            metavar="REGEX",
            help="Pattern of steps in the output, 'step (\\d+)/(\\d+)'; or session (rota.train).",
        ),
    ] = None,
    park: Annotated[
        bool | None,
        typer.Option("--park/--no-park", help="Whether a suspended job may be parked in host memory. Default: yes."),
    ] = None,
    gpu_memory: Annotated[
        str | None, typer.Option("--gpu-memory", metavar="GIB", help="Maximum GPU memory on each GPU, such as 12 GiB.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="PATH", help="Tenant of the job, such as vision/pretraining.")
    ] = None,
    cpus: Annotated[
        float | None,
        typer.Option(
            "--cpus", parser=flag.number("--cpus", like="8"), metavar="NUMBER", help="Maximum number of CPUs on a node."
        ),
    ] = None,
    memory: Annotated[
        str | None, typer.Option("--memory", metavar="GIB", help="Maximum host memory on a node, such as 64 GiB.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME[=VALUE]", help="Environment variable; NAME alone passes your value on. Repeatable."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="TEXT", help="Submission key: submitting again with the same key adds no second job."),
    ] = None,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Submit a job: a spec, a script, or a command after `--`. Flags override the spec, which overrides configuration files.

    #SBATCH and #ROTA lines of a script are read. A .py script runs with your Python. Words after a script are its arguments;
    put `--` before the first if one starts with a dash.

    A command of one quoted argument with spaces runs through bash -c. A command of several arguments runs directly.

    Example: rota submit --gpus 2 -- python train.py --epochs 90
    """
    shaped = flag.shape(output)
    if weight is not None and not math.isfinite(weight):
        raise OptionError("not a finite number.", field="--weight", value=weight, hint="--weight 2")
    spec, tree = _read_request(what or [], context.meta.get("rota.command"))
    types = None if accelerator is None else [each.strip() for each in accelerator.split(",") if each.strip()]
    given = {
        "name": name,
        "gpus": gpus,
        "steps": steps,
        "accelerators": types,
        "weight": weight,
        "priority": priority,
        "max_run_time": max_run_time,
        "array": array,
        "progress": progress,
        "park": park,
        "gpu_memory": gpu_memory,
        "tenant": tenant,
        "cpus": cpus,
        "memory": memory,
    }
    usual = from_files(context)
    defaults = {field: value for field, value in given.items() if value is not None and FLAGS.get(field, field) in usual}
    flags: dict[str, Any] = {field: value for field, value in given.items() if value is not None and field not in defaults}
    if after:
        flags["after"] = [_awaited(each) for each in after]
    if sweep:
        flags["sweep"] = dict(map(_swept, sweep))
    if env and "env" in usual:
        spec["env"] = _with_default_env(spec.get("env"), env)
    elif env:
        flags["env"] = _with_env(spec.get("env"), env)
    from rota.cli import job_text
    from rota.wire.client import connect

    client = connect(home)
    client.on_retry = _note_retry()
    try:
        row = client.submit_spec({**defaults, **spec, **flags}, key=key or "")
    except InputError as error:
        raise _located(error, tree, flags) from None
    if not job_text.data(shaped, [row], single=True):
        _print_submitted(row, home)


def _read_request(what: list[str], command: list[str] | None) -> "tuple[dict[str, Any], TreeEntry | None]":
    """Return the spec as plain data, and its file; None if it was not read from a file."""
    path = Path(what[0]) if what else Path()
    if path.suffix.lower() in SCRIPTS:
        return _read_script(path, [*what[1:], *(command or [])])
    if command is not None:
        if what:
            raise OptionError("a file and a command are two jobs.", field="submit", value=what[0], hint=_HINT)
        if not command:
            raise OptionError("no command follows --.", field="submit", hint=_HINT)
        return {"run": command[0] if len(command) == 1 and len(command[0].split()) > 1 else command}, None
    if len(what) > 1:
        raise OptionError("a command follows --.", field="submit", value=" ".join(what), hint=f"rota submit -- {' '.join(what)}")
    if not what:
        raise OptionError("there is nothing to run.", field="submit", hint=_HINT)
    if path.suffix.lower() in SPECS:
        from rota.files.tree import read_tree

        tree = read_tree(path, SpecError)
        plain: dict[str, Any] = {field: _plain(entry) for field, entry in tree.mapping().items()}
        return {"name": path.stem, **plain}, tree
    raise OptionError("is neither a spec (.yaml) nor a script (.sh, .py).", field="submit", value=what[0], hint=_HINT)


def _read_script(path: Path, arguments: list[str]) -> "tuple[dict[str, Any], TreeEntry]":
    """Return the spec of a script with these arguments, and the script. Print a note for each directive without effect."""
    from rota.cli.job_text import clean
    from rota.wire.script import read_script

    script = read_script(path, arguments)
    for note in script.notes:
        sys.stderr.write(f"note: {clean(note)}\n")
    return {field: _plain(entry) for field, entry in script.root.mapping().items()}, script.root


def _awaited(text: str) -> dict[str, Any]:
    """Return the dependency that `412`, `vit-huge` or `failed:412` means."""
    from rota.model.dependency import When

    when, colon, job = text.partition(":")
    if not colon or when not in tuple(When):
        when, job = When.OK, text
    if not job.strip():
        raise OptionError("names no job.", field="--after", value=text, hint="--after 412, or --after failed:412")
    return {"job": int(job) if job.isdecimal() else job, "when": str(when)}


def _swept(text: str) -> tuple[str, Any]:
    """Return the parameter and its values that `lr=0.1,0.01` or `seed=0..4` means."""
    name, equals, values = text.partition("=")
    if not (name.strip() and equals and values.strip()):
        raise OptionError("is not a parameter with values.", field="--sweep", value=text, hint="--sweep lr=0.1,0.01")
    return name.strip(), values if ".." in values else [each.strip() for each in values.split(",")]


def _with_env(before: Any, given: list[str]) -> dict[str, Any]:
    """Merge the variables of the spec and of the flags. Flags override the spec."""
    found: dict[str, Any] = {}
    for each in [*(before if isinstance(before, list) else []), *given]:
        name, equals, text = str(each).partition("=")
        found[name] = text if equals else None
        if not name:
            raise OptionError("has no name.", field="--env", value=each, hint="--env EPOCHS=90, or --env HF_TOKEN")
    return {**(before if isinstance(before, dict) else {}), **found}


def _with_default_env(of_spec: Any, usual: list[str]) -> Any:
    """Add the variables of a configuration file to those of the spec, which override them."""
    if of_spec is not None and not isinstance(of_spec, dict | list):
        return of_spec  # the scheduler refuses it
    return {**_with_env(None, usual), **_with_env(of_spec, [])}


def _plain(entry: "TreeEntry") -> Any:
    """Convert a value of the file to what JSON can carry."""
    value = entry.value
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise entry.wrong("is not a finite number.", hint="write a plain number such as 4 or 0.5")
    return value.isoformat() if isinstance(value, date) else value


def _located(error: InputError, tree: "TreeEntry | None", flags: dict[str, Any]) -> InputError:
    """Add the file and line to an error in which the scheduler names only the field."""
    way = tuple(int(part) if part.isdecimal() else part for part in error.field.split(".") if part)
    if tree is None or (way and way[0] in flags) or not (way or isinstance(error, SpecError)):
        return error
    entry, _ = tree.find(way)
    found = SpecError(f"{tree.where}:{entry.line}  {error.message}", hint=error.hint)
    found.field, found.line = error.field, entry.line
    return found


def _note_retry() -> "Callable[[RotaError], None]":
    """Return a callback that prints a note at the first retry."""
    noted: list[RotaError] = []

    def note(problem: RotaError) -> None:
        from rota.cli import job_text
        from rota.wire.client import RETRY_SECONDS

        if not noted:
            sys.stderr.write(
                f"{job_text.clean(problem.message)} Trying again for {RETRY_SECONDS:.0f} s; the job is submitted once.\n"
            )
        noted.append(problem)

    return note


def _print_submitted(row: "JobRow", home: str | None) -> None:
    from rota.cli import job_text

    elsewhere = f" --home {home}" if home else ""
    if row.array is not None:
        tasks = counted(row.array.tasks, "task")
        job_text.say(f"Array {row.id}  {job_text.clean(row.name)}   {tasks}, {job_text.wants(row)} each")
        verbs = (f"rota jobs --tasks{elsewhere}", f"rota wait{elsewhere} {row.id}", f"rota cancel{elsewhere} {row.id}")
        job_text.say("  tasks    {}     wait   {}     stop   {}".format(*verbs))
        return
    steps = f" · {counted(round(row.steps_total), 'step')}" if row.steps_total else ""
    job_text.say(f"Job {row.id}  {job_text.clean(row.name)}   {job_text.wants(row)}{steps}")
    follow, why, stop = (f"rota {verb}{elsewhere} {row.id}" for verb in ("logs -f", "why", "cancel"))
    job_text.say(f"  follow   {follow}     why   {why}     stop   {stop}")
