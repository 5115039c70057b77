"""Fits a straight line with the standard library alone. The three lines of Rota are marked.

python plain.py [STEPS]
"""

import json
import random
import sys
import time

from rota import train

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 400
line = {"slope": 0.0, "offset": 0.0}


def save(folder):
    (folder / "line.json").write_text(json.dumps(line))


def load(folder):
    line.update(json.loads((folder / "line.json").read_text()))


def points():
    """The same points in every run. The session skips points that were used before."""
    draw = random.Random(0)
    for _ in range(steps):
        x = draw.uniform(-1, 1)
        yield x, 3 * x - 1 + draw.gauss(0, 0.1)


with train.session(save=save, load=load, steps=steps) as job:  # 1
    if job.resumed:
        print(f"resumes at step {job.step}")
    for x, y in job.steps(points()):  # 2
        error = line["slope"] * x + line["offset"] - y
        line["slope"] -= 0.05 * error * x
        line["offset"] -= 0.05 * error
        job.log(loss=error**2)  # 3
        time.sleep(0.02)

print(f"done: y = {line['slope']:.6f} x + {line['offset']:.6f} after {job.step} steps")
