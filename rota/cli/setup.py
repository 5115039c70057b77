"""The flags that say what is simulated: which jobs, on what, under which rules. Declared once for every such command."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from rota.cli.options import CLUSTER, Format, Seed, Where, filters, number
from rota.errors import OptionError

Flag = tuple[Any, Any]


def _seconds(flag: str, about: str) -> Flag:
    return Annotated[float | None, typer.Option(flag, parser=number(flag), metavar="NUMBER", help=about)], None


def _text(flag: str, about: str, default: str | None = None) -> Flag:
    return Annotated[str | None, typer.Option(flag, help=about)], default


def _penalty(text: Any) -> float | str:
    """A number is a number; whatever else is said is read where it is used."""
    try:
        return float(text)
    except ValueError:
        return str(text)


_COUNT = number("--first", whole=True)

FLAGS: dict[str, Flag] = {
    "trace": _text("--trace", "A file, demo, philly-like, synthetic:jobs=500,seed=1, gavel:, sia: or tiresias:jobs=480.", "demo"),
    "cluster": _text("--cluster", '"36xV100 + 36xP100", nodes: "9x(4xV100)", racks: "2x(9x(4xV100))", or a YAML file.', CLUSTER),
    "preset": _text("--preset", "ideal: no overheads, equal GPUs; gavel, blox: rounds as theirs. Default: measured overheads."),
    "profile": _text("--profile", "Measured rates: our table or Gavel's JSON."),
    "profiled": _seconds("--profiled", "Tell the scheduler this part of them; it estimates the rest and learns."),
    "format": (Format, "auto"),
    "where": (Where, None),
    "first": (
        Annotated[int | None, typer.Option("--first", parser=_COUNT, metavar="N", help="Only the first N by arrival.")],
        None,
    ),
    "jobs": _text("--jobs", "FIRST:LAST, the jobs that count for averages."),
    "drop_oversized": (
        Annotated[bool, typer.Option("--drop-oversized", help="Leave out jobs that can never fit, and count them.")],
        False,
    ),
    "decide": _text("--decide", "events, rounds or both."),
    "round_seconds": _seconds("--round-seconds", "Decide at every multiple of this."),
    "seed": (Seed, 0),
    "launch_seconds": _seconds("--launch-seconds", "What starting a job costs."),
    "checkpoint_seconds": _seconds("--checkpoint-seconds", "What saving its state costs."),
    "restore_seconds": _seconds("--restore-seconds", "What loading its state costs."),
    "checkpoint_every_seconds": _seconds("--checkpoint-every-seconds", "How often a running job saves its state."),
    "spread_penalty": (
        Annotated[
            Any,
            typer.Option(
                "--spread-penalty",
                parser=_penalty,
                metavar="FACTORS",
                help="How many times longer a step takes across nodes; 1.2/1.1 across racks too; vgg19=1.7 by model.",
            ),
        ],
        None,
    ),
    "wait_for_place": (
        Annotated[bool, typer.Option("--wait-for-place", help="A job waits until its GPUs can be had close together.")],
        False,
    ),
    "node_mtbf_seconds": _seconds("--node-mtbf-seconds", "Mean time between failures of a node."),
    "node_repair_seconds": _seconds("--node-repair-seconds", "How long a failed node is away."),
    "tensors": _text("--tensors", "Tensors of models as `rota profile tensors --save` wrote them, for the placer skew."),
    "variability": _text("--variability", "How slow each GPU is: PAL's folder of runs, or a table of scores."),
    "variability_medians": (
        Annotated[bool, typer.Option("--variability-medians", help="Of runs take each GPU's median, not one at random.")],
        False,
    ),
    "variability_learned": (
        Annotated[bool, typer.Option("--variability-learned", help="The scheduler is not told, and learns it from step times.")],
        False,
    ),
    "cordon_slower_than": (
        Annotated[
            float | None,
            typer.Option(
                "--cordon-slower-than",
                parser=number("--cordon-slower-than", like="1.5"),
                metavar="NUMBER",
                help="Take GPUs out of service that take so many times as long.",
            ),
        ],
        None,
    ),
}


def with_setup(*, without: tuple[str, ...] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command all these flags but some; it gets what was said as one mapping called `setup`, ready for `rota.simulate`."""
    flags = {name: flag for name, flag in FLAGS.items() if name not in without}

    def give(command: Callable[..., None]) -> Callable[..., None]:
        own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name != "setup"]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in flags.items()
        ]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            command(**{p.name: given[p.name] for p in own}, setup=_tidy({name: given[name] for name in flags}))

        own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        run.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in (*own, *added)}
        return run

    return give


def _tidy(given: dict[str, Any]) -> dict[str, Any]:
    if "where" in given:
        given["where"] = filters(given["where"])
    if "jobs" in given:
        given["jobs"] = _window(given["jobs"])
    return given


def _window(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, colon, last = text.partition(":")
    if not colon or not all(part.strip().isascii() and part.strip().isdigit() for part in (first, last)):
        raise OptionError("not FIRST:LAST.", field="--jobs", value=text, hint="--jobs 100:500")
    return int(first), int(last)
