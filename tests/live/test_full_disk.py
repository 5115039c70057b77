"""A disk that fills up: a job floods its log, then another program takes the rest, then there is room again. On a small disk."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler
from rota.errors import RotaError
from rota.live.replay import replay
from tests.live.harness import Site, site, until


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def free(folder: Path) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def fill(folder: Path) -> Path:
    """Take all the room there is."""
    path = folder / "somebody-else"
    with path.open("ab", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return path


def check_record(place: Site, jobs: list[int]) -> None:
    journal = place.journal()
    assert all(difference is None for _, _, difference in replay(journal, JOURNAL_CODEC, make_scheduler))
    assert [job for job, _, _ in journal.jobs()] == jobs
    journal.close()


def test_a_disk_fills_up_and_has_room_again(small_disk: Path, tmp_path: Path) -> None:
    with site(tmp_path, pretend="2xV100", policy="fifo", home=small_disk / "home") as place:
        flood = place.client().submit(run="head -c 100000000 /dev/zero | tr '\\0' x | fold -w 99; echo last line").id
        until(lambda: place.rows()[flood].ended, "the job that floods its log ends")
        assert place.rows()[flood].phase == "finished", "it is not held up"
        assert free(small_disk) > 3_000_000, "its log left room"
        runs, waits = place.submit(2, 100, 0.1), place.submit(1, 3, 0.05)
        until(lambda: place.rows()[runs].phase == "running", "one runs")
        filler = fill(small_disk)
        until(lambda: "is full: no job is taken or started" in place.said(), "the operator is told")
        with pytest.raises(RotaError, match=r"Not taken: the disk of .* is full"):
            place.submit(1, 3, 0.05)
        assert "is full" in (place.client().status().disk_problem or "")
        assert place.rows()[runs].phase == "running", "what runs goes on"
        place.kill()
        os.truncate(filler, filler.stat().st_size - 500_000)
        place.up()
        until(lambda: "is full: no job is taken or started" in place.said(), "it starts on a full disk too")
        assert place.rows()[runs].phase in ("running", "finished")
        filler.unlink()
        until(lambda: "has room again" in place.said(), "there is room again, without a restart")
        last = place.submit(1, 3, 0.05)
        until(lambda: all(row.ended for row in place.rows().values()), "all jobs end")
        assert {row.phase for row in place.rows().values()} == {"finished"}
        assert place.violations() == ""
        place.down()
        check_record(place, [flood, runs, waits, last])


def test_a_journal_that_may_not_grow_waits_and_loses_nothing(tmp_path: Path) -> None:
    """A quota instead of a disk: no file of the scheduler may grow beyond what it is. Nothing is told by the room on the disk."""
    with site(tmp_path, pretend="2xV100", policy="fifo") as place:
        first = place.submit(1, 5, 0.05)
        until(lambda: place.rows()[first].ended, "one job ends")
        assert place.process is not None
        before = resource.prlimit(place.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(place.process.pid, resource.RLIMIT_FSIZE, (4096, before[1]))
        command = [sys.executable, "-m", "rota", "submit", "--home", str(place.home), "--", "true"]
        asking = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until(lambda: "is full: no job is taken or started" in place.said(), "the operator is told")
        resource.prlimit(place.process.pid, resource.RLIMIT_FSIZE, before)
        out, err = asking.communicate(timeout=60)
        # Refused, if the journal had something else to write before; if not, it waited for its turn.
        assert out.startswith(f"Job {first + 1}") or "Not taken: the disk of" in err, (out, err)
        until(lambda: "has room again" in place.said(), "it goes on")
        taken = [first, *([first + 1] if out else [])]
        taken.append(place.submit(1, 3, 0.05))
        until(lambda: all(row.phase == "finished" for row in place.rows().values()), "all that were taken finish")
        assert sorted(place.rows()) == taken
        place.kill()
        check_record(place, taken)
