"""Thousands of random set-ups: `python -m tests.fuzz --cases 5000 --seed 0`. The last line is JSON."""

import argparse
import json
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from tests.fuzz.checks import Wrong, check_setup

MAX_SECONDS = 120
"""No set-up takes longer than this, unless it never ends."""


def _late(signum: int, frame: Any) -> None:
    raise TimeoutError(f"still running after {MAX_SECONDS} s")


def one(number: int) -> tuple[int, dict[str, int], str]:
    """A set-up in a worker process: what it covered, and what is wrong with it."""
    signal.signal(signal.SIGALRM, _late)
    signal.alarm(MAX_SECONDS)
    warnings.simplefilter("error")
    try:
        with tempfile.TemporaryDirectory() as folder:
            return number, check_setup(number, Path(folder)), ""
    except Wrong as story:
        return number, {}, str(story)
    finally:
        signal.alarm(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the number of the first set-up")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    began, covered, wrong = time.monotonic(), Counter[str](), []
    with ProcessPoolExecutor(asked.workers) as pool:
        numbers = range(asked.seed, asked.seed + asked.cases)
        for done, (number, counts, story) in enumerate(pool.map(one, numbers, chunksize=8), 1):
            covered.update(counts)
            if story:
                wrong.append(number)
                print(story, end="\n\n", flush=True)
            if done % 250 == 0:
                print(f"{done} of {asked.cases} set-ups, {len(wrong)} wrong, {time.monotonic() - began:.0f} s", file=sys.stderr)
    seconds = round(time.monotonic() - began)
    print(json.dumps({"cases": asked.cases, "seed": asked.seed, "wrong": wrong, "seconds": seconds, **covered}))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
