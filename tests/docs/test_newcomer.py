"""The first five minutes of a newcomer, command by command, with real PyTorch training. The what-if line is not there yet.
`rota demo`, which comes first, is in test_examples.py.

`rota up` has flags here so that jobs take turns within the five minutes: one GPU, and rounds of two seconds.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import rota
from tests.docs.pages import ROOT
from tests.live.harness import until

PATIENCE = 400.0


class Terminal:
    """Types commands in one folder, as a person would; `rota` and `python` are those of the environment of the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {
            **os.environ,
            "ROTA_HOME": str(folder / "home"),
            "PYTHONPATH": str(ROOT),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        }

    def types(self, command: str) -> str:
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.env, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


UP = 'exec rota up --pretend "1xV100" --policy las --round-seconds 2 --min-run-factor 0 --listen 127.0.0.1:0'
"""Without a minimum run time, since these jobs are short: else none of them would be suspended."""


def test_the_first_five_minutes(tmp_path: Path) -> None:
    for name in ("cnn.py", "transformer.py"):
        shutil.copy(ROOT / "examples" / "training" / name, tmp_path / name)
    me = Terminal(tmp_path)
    said = tmp_path / "up"
    with said.open("w") as file:
        daemon = subprocess.Popen(
            ["bash", "-c", UP],
            cwd=tmp_path,
            env=me.env,
            stdout=file,
            stderr=file,
        )
    try:
        until(lambda: "try: " in said.read_text() or daemon.poll() is not None, "rota up is ready")
        first, *lines = said.read_text().splitlines()
        assert first.startswith("ready http://127.0.0.1:"), said.read_text()
        (sample,) = [line.removeprefix("try: ") for line in lines if line.startswith("try: ")]
        assert sample.startswith("rota submit --gpus 1 -- python -c")
        assert "Job 1" in me.types(sample)
        me.types("rota wait 1")
        assert "hello" in me.types("rota logs 1")
        # The GPU is in use until all three are in the queue: how long it takes to submit them must not matter.
        me.types("rota submit --gpus 1 --name first -- bash -c 'until [ -e go ]; do sleep 0.05; done'")
        for script in ("cnn.py 20", "transformer.py 12", "cnn.py 20"):  # each trains for several rounds
            me.types(f"rota submit --gpus 1 --progress session -- python {script}")
        assert all(f"job-{job}" in me.types("rota jobs") for job in (3, 4, 5))
        waits = "It needs 1 GPU of any type; 0 are free."
        until(lambda: any(waits in me.types(f"rota why {job}") for job in (3, 4, 5)), "a wait has a reason")
        (tmp_path / "go").touch()
        me.types(f"rota wait 2 3 4 5 --timeout {PATIENCE:.0f}")
        client = rota.connect(tmp_path / "home")
        rows = {row.id: row for row in client.jobs(everything=True)}
        assert {row.phase for row in rows.values()} == {"finished"}
        assert sum(row.suspensions for row in rows.values()) >= 1, "they took turns"
        assert rows[3].metrics["loss"] < 0.1
        # Two of them are the same training: whether they were suspended does not show.
        logs = [me.types(f"rota logs {job}").splitlines() for job in (3, 5)]
        ends = [next(line for line in log if line.startswith("done: ")) for log in logs]
        assert ends[0] == ends[1] and ends[0].startswith("done: 2560 steps, weights ")
        doors = me.types("rota help next")
        assert all(door in doors for door in ("Run my training script", "Write a policy", "Set up a cluster"))
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(60)
