"""The tutorial of first jobs, run against a real scheduler with real processes."""

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, words
from tests.live.harness import Site

PAGE = (ROOT / "docs/first-jobs.md").read_text(encoding="utf-8")
TYPED = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
COMMANDS = [command.replace(" 1000 ", " 50 ") for command in TYPED]
"""A person needs 20 s to read while the first job runs; a test doesn't."""
TRAIN, CLIENT = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    found = Site(tmp_path)
    monkeypatch.chdir(found.work)
    monkeypatch.setenv("ROTA_HOME", str(found.home))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    (found.work / "train.py").write_text(TRAIN, encoding="utf-8")
    found.up()
    yield found
    found.close()


def test_every_command_does_what_the_page_says(site: Site) -> None:
    up, *rest = COMMANDS
    assert words(up)[:2] == ["rota", "up"] and len(rest) == 9
    said = {}
    for command in rest:
        done = subprocess.run([sys.executable, "-m", *words(command)], capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        said[command] = done.stdout
    assert "step 1/50" in said["rota logs small"]
    phases = {row.name: row.phase for row in site.client().jobs(everything=True)}
    assert phases["small"] == phases["large"] == "finished"
    assert phases["endless"] in ("cancelled", "stopping")
    assert "finished" in said["rota show large"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(CLIENT, "docs/first-jobs.md", "exec"), {})
    assert printed.getvalue() in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
