"""How long `rota jobs` takes while strangers hold half-sent requests open.

    python -m benchmarks.strangers [--count 2500] [--files 1024] [--times 10]

Starts a scheduler with pretend GPUs that may have --files open files, and strangers in another process. Three times are measured:
without strangers, with connections that they hold open, and with connections that they open again as soon as the scheduler closes
them. Prints a table, and JSON on the last line. Ends by itself.
"""

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rota.wire.client import connect
from tests.live.strangers import strangers

HELD_SECONDS = 120.0
"""Strangers end after this, whatever happens."""


@contextlib.contextmanager
def scheduler(home: Path, files: int) -> Iterator[tuple[int, Path]]:
    """Its port, and the file with its output."""
    output = home / "out"
    words = [sys.executable, "-m", "rota", "up", "--home", str(home), "--pretend", "4xV100", "--listen", "127.0.0.1:0"]
    with output.open("w") as file:
        process = subprocess.Popen(
            words,
            stdout=file,
            stderr=file,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)),
        )
    try:
        while not (home / "daemon.json").exists():
            if process.poll() is not None:
                raise SystemExit(output.read_text())
            time.sleep(0.05)
        yield int(json.loads((home / "daemon.json").read_text())["url"].rsplit(":", 1)[1]), output
    finally:
        process.terminate()
        process.wait(60)


def measure(home: Path, times: int) -> dict[str, float]:
    """Seconds: of one question in this process, and of the whole command."""
    client, asked, commands = connect(home), [], []
    for _ in range(times):
        began_s = time.perf_counter()
        client.jobs()
        asked.append(time.perf_counter() - began_s)
        began_s = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "rota", "jobs", "--home", str(home)], check=True, stdout=subprocess.DEVNULL, env=os.environ
        )
        commands.append(time.perf_counter() - began_s)
    return {
        "api_median_s": round(statistics.median(asked), 4),
        "api_max_s": round(max(asked), 4),
        "command_median_s": round(statistics.median(commands), 3),
        "command_max_s": round(max(commands), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2500, help="Half-sent requests.")
    parser.add_argument("--files", type=int, default=1024, help="Open files that the scheduler may have.")
    parser.add_argument("--times", type=int, default=10, help="Measurements of each kind.")
    asked = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder, scheduler(Path(folder), asked.files) as (port, output):
        home = Path(folder)
        found["none"] = measure(home, asked.times)
        for name, renew in (("held", False), ("renewed", True)):
            with strangers(port, asked.count, HELD_SECONDS, renew=renew):
                found[name] = measure(home, asked.times)
        log_bytes = output.stat().st_size
    print(f"{'STRANGERS':<12}{'API':>10}{'MAX':>10}{'COMMAND':>10}{'MAX':>10}   seconds")
    for name, row in found.items():
        print(f"{name:<12}" + "".join(f"{value:>10.3f}" for value in row.values()))
    print(f"the scheduler's output: {log_bytes:,} bytes")
    print(json.dumps({"count": asked.count, "files": asked.files, "log_bytes": log_bytes, **found}))


if __name__ == "__main__":
    main()
