"""Strangers without a token: half-sent requests to a scheduler of this machine, held open for a while. Ends by itself.

    python -m tests.live.strangers PORT COUNT SECONDS [--renew]

Prints `open` once all are there. With --renew, a connection that the scheduler closes is opened again.
"""

import argparse
import contextlib
import resource
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
HALF = b"GET /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
SPARE_FILES = 100


def half_sent(port: int) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", port), timeout=10)
    line.sendall(HALF)
    line.setblocking(False)
    return line


def attack(port: int, count: int, seconds: float, *, renew: bool) -> int:
    """How many connections were opened in all."""
    end, opened = time.monotonic() + seconds, 0
    watch = selectors.DefaultSelector()

    def begin() -> None:
        nonlocal opened
        with contextlib.suppress(OSError):
            watch.register(half_sent(port), selectors.EVENT_READ)
        opened += 1

    for _ in range(count):
        begin()
    print("open", flush=True)
    while time.monotonic() < end:
        for key, _ in watch.select(timeout=0.1):
            watch.unregister(key.fileobj)
            key.fileobj.close()  # type: ignore[union-attr]
            if renew and time.monotonic() < end:
                begin()
    return opened


@contextlib.contextmanager
def strangers(port: int, count: int, seconds: float, *, renew: bool = False) -> Iterator["subprocess.Popen[str]"]:
    """In a process of their own. Inside, all connections have been opened once."""
    words = [sys.executable, "-m", "tests.live.strangers", str(port), str(count), str(seconds)]
    process = subprocess.Popen([*words, *(["--renew"] if renew else [])], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "open\n"
        yield process
    finally:
        process.terminate()
        process.stdout.close()
        process.wait(30)


def files_suffice(count: int) -> bool:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= count + SPARE_FILES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--renew", action="store_true")
    asked = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, asked.count + SPARE_FILES), hard))
    attack(asked.port, asked.count, asked.seconds, renew=asked.renew)


if __name__ == "__main__":
    main()
