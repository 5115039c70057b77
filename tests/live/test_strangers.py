"""Strangers on the same machine, without a token: the scheduler keeps answering, and its output stays small."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.harness import PATIENCE, Site, site, until
from tests.live.strangers import files_suffice, strangers

pytestmark = pytest.mark.slow

COUNT, FILES = 2500, 1024
SMALL_BYTES = 20_000

LIMITED = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[1])))
sys.argv = ["rota", *sys.argv[4:]]
runpy.run_module("rota", run_name="__main__")
"""


def port_of(place: Site) -> int:
    return int(place.client().url.rsplit(":", 1)[1])


@pytest.mark.skipif(not files_suffice(COUNT), reason=f"this process may not open {COUNT} files")
def test_half_sent_requests_keep_no_one_from_asking(tmp_path: Path) -> None:
    place = Site(tmp_path)
    place.python = [sys.executable, "-c", LIMITED, str(FILES)]
    try:
        place.up()
        for renew in (False, True):
            with strangers(port_of(place), COUNT, PATIENCE, renew=renew) as crowd:
                for number in range(3):
                    job = place.client().submit("true", name=f"job-{renew}-{number}")
                    assert job.name in [row.name for row in place.client().jobs(everything=True)]
                said = subprocess.run(
                    [sys.executable, "-m", "rota", "jobs", "--all", "--home", str(place.home)],
                    capture_output=True,
                    text=True,
                    timeout=PATIENCE,
                )
                assert said.returncode == 0 and f"job-{renew}-2" in said.stdout, said.stderr
                assert crowd.poll() is None, "they were there all the while"
        assert len(place.errors()) + len(place.said()) < SMALL_BYTES
        assert place.process is not None and place.process.poll() is None
    finally:
        place.close()


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="prlimit is not installed")
def test_without_files_for_a_connection_one_line_says_so(tmp_path: Path) -> None:
    """Whoever uses them up. When there are files again, it answers again."""
    with site(tmp_path) as place:
        until(lambda: place.client().status().policy_worker_pid is not None, "all its processes are there")
        assert place.process is not None
        pid = place.process.pid
        used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        subprocess.run(["prlimit", f"--pid={pid}", f"--nofile={used + 2}:1024"], check=True)
        with strangers(port_of(place), 50, PATIENCE):
            until(lambda: "connection not accepted" in place.errors(), "it says so")
            subprocess.run(["prlimit", f"--pid={pid}", "--nofile=1024:1024"], check=True)
            assert place.client().status().gpus == 4
        assert "LimitNOFILE" in place.errors() and "Traceback" not in place.errors() and len(place.errors()) < SMALL_BYTES
