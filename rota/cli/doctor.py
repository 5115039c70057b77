"""`rota doctor`: check this machine and this home, and propose what to do about problems."""

from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli import common_flags as flag

if TYPE_CHECKING:
    from rota.doctor.diagnosis import Diagnosis

_COLOURS = {"ok": "32", "warn": "33", "fail": "31"}


def doctor(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="Files to check too, such as a job spec that should run here.")
    ] = None,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Check this machine and this home. Each check prints a line: ok, warn or fail, what was found, and what to do next.

    Nothing is changed. The exit code is 1 if a check failed.

    Example: rota doctor job.yaml
    """
    shaped = flag.shape(output)
    from rota.cli import job_text
    from rota.cli.output import say
    from rota.doctor.diagnose import diagnose
    from rota.doctor.diagnosis import FAIL
    from rota.wire.address import home_folder

    found: list[Diagnosis] = []
    for each in diagnose(home_folder(home), files or []):
        found.append(each)
        if shaped in ("table", "wide"):
            job_text.say(_line(each, colour=job_text.colourful()))
    if shaped in ("json", "csv"):
        say(shaped, rows=[each.to_dict() for each in found])
    if any(each.state == FAIL for each in found):
        raise typer.Exit(1)


def _line(diagnosis: "Diagnosis", *, colour: bool) -> str:
    from rota.cli import job_text

    state = f"{diagnosis.state:<4}"
    state = f"\x1b[{_COLOURS[diagnosis.state]}m{state}\x1b[0m" if colour else state
    step = f"\n      Try: {job_text.clean(diagnosis.next)}" if diagnosis.next else ""
    return f"{state}  {diagnosis.check:<16}  {job_text.clean(diagnosis.found)}{step}"
