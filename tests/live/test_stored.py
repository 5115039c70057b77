"""A job whose checkpoints are in a store: suspended again and again, it is the run that was never interrupted."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import rota
from tests.live.harness import Site, check_record, until

pytest.importorskip("fsspec")
PACKAGES = str(Path(rota.__file__).parents[1])
TIMES = 3
PATIENCE = 300.0

SCRIPT = """
import json, os, random, sys, time
from rota import train

times, most, pace = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
restarts = int(os.environ.get("ROTA_RESTARTS", "0"))
draw = random.Random(restarts)  # what a resumed run begins with must not matter
weights = [0.0] * 8

def save(folder):
    (folder / "weights").write_text(json.dumps([weight.hex() for weight in weights]))
    (folder / "draw").write_text(json.dumps(draw.getstate()))

def load(folder):
    weights[:] = map(float.fromhex, json.loads((folder / "weights").read_text()))
    version, state, gauss = json.loads((folder / "draw").read_text())
    draw.setstate((version, tuple(state), gauss))

with train.session(save, load, every_seconds=None) as job:
    for epoch in job.epochs(most):
        for batch in job.steps(range(10)):
            for place in range(8):
                weights[place] += 0.1 * (draw.gauss(batch, 1.0) - weights[place])
            time.sleep(pace)
        if restarts >= times:
            break  # it was suspended often enough
print("weights", *(weight.hex() for weight in weights), "after", epoch + 1, "epochs", job.step, flush=True)
"""


def test_suspended_with_checkpoints_in_a_store_a_job_ends_with_the_same_bits(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    place = Site(tmp_path, pretend="1xV100", policy="las")
    with contextlib.closing(place):
        place.up(decide="rounds", round_seconds="1")
        env = {"PYTHONPATH": PACKAGES, "PATH": os.environ["PATH"]}
        run = [sys.executable, str(script), str(TIMES), "1000000", "0.05"]
        url = f"file://{tmp_path}/store"
        saved: dict[str, object] = {"dir": url, "grace": 60}
        job = (
            place.client().submit(run=run, env=env, progress="session", park=False, workdir=str(place.work), checkpoint=saved).id
        )
        place.submit(1, 1_000_000, 0.05, name="the-other")
        until(lambda: place.rows()[job].ended, "it has been suspended so often, and is done", PATIENCE)
        row = place.rows()[job]
        log = (place.home / "logs" / f"{job}.log").read_text()
        assert row.phase == "finished", log
        assert row.suspensions >= TIMES and row.lost_steps == 0
        (line,) = [line for line in log.splitlines() if line.startswith("weights")]
        epochs = line.split()[-3]
        alone = subprocess.run([*run[:3], epochs, "0"], env=env, capture_output=True, text=True, check=True)
        assert alone.stdout.strip() == line
        assert row.steps_done == row.steps_total == 10 * int(epochs)
        (kept,) = (tmp_path / "store").iterdir()
        assert kept.name.startswith("rota-") and len(list(kept.glob("step-*.json"))) == 2
        assert not list(place.work.glob("**/step-*")), "nothing is written beside the store"
        place.client().cancel("the-other")
        until(lambda: all(row.ended for row in place.rows().values()), "all have ended")
        place.down()
        check_record(place, waits=0)
