"""Logs: their limit, the positions in them, and a disk without room. Real files."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.agent import log as log_module
from rota.agent.log import MIN_LIMIT_BYTES, Log, log_end, read_log
from tests.examples import examples


@examples(60)
@given(st.lists(st.binary(min_size=1, max_size=20_000), max_size=12), st.integers(0, 200_000), st.integers(1, 50_000))
def test_what_is_read_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], offset: int, limit: int
) -> None:
    path = tmp_path_factory.mktemp("logs") / "1.log"
    log = Log(path, MIN_LIMIT_BYTES)
    for piece in pieces:
        log.write(piece)
    log.close()
    whole = b"".join(pieces)
    assert log_end(path) == len(whole)
    start, data = read_log(path, offset, limit)
    assert data == whole[start : start + limit] and (start == offset or len(whole) - start <= MIN_LIMIT_BYTES)
    assert len(whole) - read_log(path, 0, 1).start >= min(len(whole), MIN_LIMIT_BYTES // 2), "half of the limit is always there"


def test_cut_off_between_two_files(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    log = Log(path, MIN_LIMIT_BYTES)
    log.write(b"a" * 9000)
    end = log_end(path)
    path.replace(tmp_path / "1.log.1")  # and the next one never came
    again = Log(path, MIN_LIMIT_BYTES)
    again.write(b"b")
    assert log_end(path) == end + 1 and read_log(path, end - 1, 10).data == b"ab"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_logs_leave_room_on_the_disk_and_say_what_they_dropped(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "LOOK_AT_DISK_BYTES", 1 << 16)
    log = Log(small_disk / "1.log")
    for _ in range(200):
        log.write(b"x" * 65_536)
    disk = os.statvfs(small_disk)
    assert disk.f_bavail * disk.f_frsize > 0.05 * disk.f_blocks * disk.f_frsize, "there is room for the journal"
    (small_disk / "other").write_bytes(b"y" * (disk.f_bavail * disk.f_frsize))  # somebody else takes the rest
    log.write(b"lost")
    (small_disk / "other").unlink()
    os.truncate(small_disk / "1.log", 100)
    log.write(b"back\n")
    text = (small_disk / "1.log").read_bytes()
    assert text.endswith(b"bytes of output were dropped: the disk was full ---\nback\n")


def test_a_line_of_rota_is_one_line_whatever_a_spec_says(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    log = Log(path)
    log.mark("cannot go to /tmp/\x1b[2J\n--- rota: finished ---\u202e")
    assert path.read_text() == "--- rota: cannot go to /tmp/?[2J?--- rota: finished ---? ---\n"
    log.close()


FORGED = "--- rota: suspended at step 8, 0 steps lost ---"


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 9, 1000])
@pytest.mark.parametrize("before", ["", "hello\n", "50%\r", "a\x0b", "a\x0c", "a\x85", "a\u2028"])
def test_a_job_cannot_write_a_line_of_rotas(tmp_path: Path, before: str, piece: int) -> None:
    log = Log(tmp_path / "1.log")
    log.mark("started")
    data = f"{before}{FORGED}\nsays --- rota: in a line\n{FORGED}\n".encode()
    for at in range(0, len(data), piece):
        log.write(data[at : at + piece])
    log.mark("suspended")
    log.write(FORGED.encode() + b"\n")
    log.close()
    text = read_log(tmp_path / "1.log", 0, 1 << 20).data.decode()
    assert [line for line in text.splitlines() if line.startswith("--- rota:")] == [
        "--- rota: started ---",
        "--- rota: suspended ---",
    ]
    assert text.count(FORGED.replace("rota:", "rota\\:")) == 3 and "says --- rota: in a line\n" in text


def test_a_job_cannot_make_believe_that_its_log_continues_another(tmp_path: Path) -> None:
    log = Log(tmp_path / "1.log")
    log.write(b"--- rota: continues 1.log.1 at byte 999 ---\nhello\n")
    log.close()
    assert read_log(tmp_path / "1.log", 0, 1 << 20).start == 0 and log_end(tmp_path / "1.log") < 999


def test_a_log_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("precious")
    (tmp_path / "1.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        Log(tmp_path / "1.log")
    assert (tmp_path / "elsewhere").read_text() == "precious"


@pytest.mark.parametrize("pieces", [["took 1\n", "took 2\n"], ["took ", "1\ntook 2\n"], ["took", " ", "1", "\n", "took", " 2\n"]])
def test_an_announcement_does_not_split_a_line_of_the_job(tmp_path: Path, pieces: list[str]) -> None:
    """Unbuffered Python writes a line in several pieces."""
    log = Log(tmp_path / "1.log")
    log.write(pieces[0].encode())
    log.announce("asked to save and stop")
    for piece in pieces[1:]:
        log.write(piece.encode())
    log.mark("suspended")
    log.close()
    asked, suspended = ("--- rota: asked to save and stop ---", "--- rota: suspended ---")
    assert (tmp_path / "1.log").read_text().splitlines() == ["took 1", asked, "took 2", suspended]


def test_an_announcement_with_no_line_behind_it_is_dropped(tmp_path: Path) -> None:
    log = Log(tmp_path / "1.log")
    log.write(b"took")
    log.announce("asked to save and stop")
    log.write(b" 1\n")
    log.mark("suspended")
    log.write(b"took 2\n")
    log.close()
    assert (tmp_path / "1.log").read_text().splitlines() == ["took 1", "--- rota: suspended ---", "took 2"]
