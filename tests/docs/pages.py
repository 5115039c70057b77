"""Pages whose commands are run: a block of `sh`, followed by the block with its output, in folded lines.

python -m tests.docs.pages [PAGE...]     # writes into the pages what their commands print now
"""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from docs.reference import fold
from rota.cli.main import main
from rota.compose.registry import POLICY_REGISTRY

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
OTHERS = ("shares-to-rounds", "write-an-objective", "placement", "troubleshooting")
NOTEBOOK = ROOT / "docs/tutorial.md"
PAGES = sorted([*(ROOT / "docs/policies").glob("*.md"), *(ROOT / "docs" / f"{name}.md" for name in OTHERS)])

SHOWN = re.compile(r"(```sh\n(rota (?:[^\n]*\\\n)*[^\n]*)\n```\n\n```(?:text|json)\n)(.*?)(```)", re.DOTALL)
CELL = re.compile(r"(```python\n(.*?)```)(?:(\s*```text\n)(.*?)(```))?", re.DOTALL)
FILES = re.compile(r"```(?:python|json|yaml)\n(.*?)```", re.DOTALL)
NAMED = re.compile(r"as `([\w.-]+)`:\n\n```\w+\n(.*?)```", re.DOTALL)
NUMBER = re.compile(r"([x($]?)(\d[\d,]*(?:\.\d+)?)([smhd%]?)")
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True)
class Shown:
    command: str
    output: str


def commands(page: Path) -> list[Shown]:
    return [Shown(found[1], found[2]) for found in SHOWN.findall(page.read_text(encoding="utf-8"))]


def files(page: Path) -> list[str]:
    """Blocks that may be the contents of a file."""
    return FILES.findall(page.read_text(encoding="utf-8"))


@contextlib.contextmanager
def workbench(folder: Path) -> Iterator[None]:
    """A folder with the examples, and the files that pages show: a block behind words like "with this as `jobs.csv`:"."""
    for file in EXAMPLES.iterdir():
        if file.is_file():
            shutil.copy(file, folder / file.name)
    for page in PAGES:
        for name, content in NAMED.findall(page.read_text(encoding="utf-8")):
            (folder / name).write_text(content, encoding="utf-8")
    before, declared = Path.cwd(), dict(POLICY_REGISTRY.declared)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        POLICY_REGISTRY.declared.clear()  # a policy that one page declares is not there on the next
        POLICY_REGISTRY.declared.update(declared)


def words(command: str) -> list[str]:
    """A command as a shell splits it, also one that goes on in the next line."""
    return shlex.split(command.replace("\\\n", " "))


def output_of(command: str) -> str:
    """What a command says: its answer, or its complaint."""
    out, err = io.StringIO(), io.StringIO()
    with patch.object(sys, "argv", words(command)), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            if stop.code:
                return err.getvalue()
    return out.getvalue()


def alike(shown: str, printed: str, close: float = 0.1) -> bool:
    """The same words, and numbers that are close: the last digits of a solver are not the same on every machine, and a schedule
    of a day makes something of them."""
    if shown.startswith("{"):
        return _alike_json(json.loads(shown), json.loads(printed), close)
    ours, theirs = (re.sub(r"solved in [\d.]+ ms", "solved", text).split() for text in (shown, printed))
    return len(ours) == len(theirs) and all(_close(a, b, close) for a, b in zip(ours, theirs, strict=True))


def _alike_json(ours: Any, theirs: Any, close: float) -> bool:
    if isinstance(ours, dict):
        names = ours.keys() - {"solve_seconds"}
        return ours.keys() == theirs.keys() and all(_alike_json(ours[name], theirs[name], close) for name in names)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(_alike_json(a, b, close) for a, b in zip(ours, theirs, strict=True))
    if isinstance(ours, float):
        return abs(ours - theirs) <= close * max(abs(ours), abs(theirs)) + 1e-3
    return bool(ours == theirs)


def _close(ours: str, theirs: str, close: float) -> bool:
    a, b = NUMBER.fullmatch(ours), NUMBER.fullmatch(theirs)
    if ours == theirs or a is None or b is None:
        return ours == theirs
    x, y = (float(found[2].replace(",", "")) * SECONDS.get(found[3], 1.0) for found in (a, b))
    return abs(x - y) <= close * max(x, y) + 1e-3


def _pretty(output: str) -> str:
    if not output.startswith("{"):
        return "\n".join(part for line in output.splitlines() for part in fold(line.rstrip(), "    ")) + "\n"
    plain = json.loads(output, parse_float=lambda text: round(float(text), 4))
    rows = [
        f'  "shares": [\n{_rows(plain["shares"])}\n  ]' if key == "shares" else f'  "{key}": {json.dumps(plain[key])}'
        for key in plain
    ]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _rows(shares: list[Any]) -> str:
    return ",\n".join(f"    {json.dumps(share)}" for share in shares)


def printed_by_cells(page: Path) -> Iterator[tuple[str, str]]:
    """Every block of Python of a page, run in one namespace as in a notebook, and what it prints."""
    names: dict[str, object] = {}
    for cell in CELL.finditer(page.read_text(encoding="utf-8")):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(cell[2], page.name, "exec"), names)
        yield cell[2], out.getvalue()


def refresh_notebook(page: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, workbench(Path(folder)):
        printed = dict(printed_by_cells(page))
    text = page.read_text(encoding="utf-8")
    page.write_text(CELL.sub(lambda c: c[1] + (c[3] + _pretty(printed[c[2]]) + c[5] if c[3] else ""), text), encoding="utf-8")


def refresh_commands(page: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, workbench(Path(folder)):
        text = page.read_text(encoding="utf-8")
        page.write_text(SHOWN.sub(lambda found: found[1] + _pretty(output_of(found[2])) + found[4], text), encoding="utf-8")


def refresh(names: list[str]) -> None:
    # The notebook last: it declares a policy, which would then be known to the commands too.
    for page in [*PAGES, NOTEBOOK]:
        if not names or page.stem in names:
            (refresh_notebook if page == NOTEBOOK else refresh_commands)(page)
            print(page.relative_to(ROOT), file=sys.stderr)


if __name__ == "__main__":
    refresh(sys.argv[1:])
