"""A scheduler stops on a signal, even at its first moment."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

SIGNALLED = """
import os, signal, sys
from pathlib import Path
from rota.server.serve import ServeOptions, serve

home, number = Path(sys.argv[1]), int(sys.argv[2])
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as for one that a shell starts in the background
options = ServeOptions(home=home, pretend="1xV100", listen=("127.0.0.1:0",))
serve(options, lambda line: os.kill(os.getpid(), number) if line.startswith("ready") else None)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_is_heeded_as_soon_as_it_is_ready(tmp_path: Path, number: signal.Signals) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED, str(tmp_path), str(int(number))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "daemon.json").exists(), "it cleared up"
