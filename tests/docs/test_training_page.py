"""The tutorial of training: its code is the code of the examples, and its first half is run against a real scheduler."""

import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import rota
from tests.docs.pages import ROOT
from tests.docs.test_newcomer import Terminal
from tests.live.harness import until

EXAMPLES = ROOT / "examples" / "training"
PAGE = (ROOT / "docs" / "tutorial-training.md").read_text(encoding="utf-8")
PLAIN, _, NETWORK = PAGE.partition("## A network in PyTorch")


def blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def test_the_code_is_that_of_the_examples() -> None:
    for part, name in ((PLAIN, "plain.py"), (NETWORK, "cnn.py")):
        found = blocks(part, "python")
        assert found
        for block in found:
            assert block in (EXAMPLES / name).read_text(encoding="utf-8"), name


def test_every_example_is_on_the_page() -> None:
    assert {file.name for file in EXAMPLES.glob("*.py")} == set(re.findall(r"\b(\w+\.py)\b", PAGE))


@pytest.mark.slow
def test_two_scripts_take_turns_and_lose_nothing(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "plain.py", tmp_path / "plain.py")
    me = Terminal(tmp_path)
    alone, up, *rest = [line for block in blocks(PLAIN, "sh") for line in block.splitlines()]
    shown = blocks(PLAIN, "text")
    assert me.types(alone) == shown[0]
    assert up.startswith("rota up ") and rest[-2:] == ["rota logs one", "rota show one"]
    said = tmp_path / "up"
    with said.open("w") as file:
        daemon = subprocess.Popen(
            ["bash", "-c", f"exec {up} --listen 127.0.0.1:0"], cwd=tmp_path, env=me.env, stdout=file, stderr=file
        )
    try:
        until(lambda: "try: " in said.read_text() or daemon.poll() is not None, "rota up is ready")
        printed = {command: me.types(command) for command in rest}
        log = printed["rota logs one"]
        assert "--- rota: suspended at step" in log and "resumes at step" in log
        assert log.splitlines()[-2:] == [shown[0].rstrip(), "--- rota: finished ---"] == shown[1].splitlines()[-2:]
        assert ", no work lost" in printed["rota show one"] and "loss" in printed["rota show one"]
        rows = rota.connect(tmp_path / "home").jobs(everything=True)
        assert all(row.phase == "finished" and row.steps_done == 400 and row.lost_steps == 0 for row in rows)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(60)
