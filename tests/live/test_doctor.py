"""`rota doctor` names the fault in homes and machines that are broken in one way each, and the next step."""

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rota.cli.main import main
from rota.compose.live_scheduler import JOURNAL_CODEC
from rota.core.snapshot import READABLE, VERSION
from rota.doctor import diagnose as diagnose_module
from rota.live.journal import Journal
from rota.model.events import TimerFired
from tests.live.harness import Site, site, until
from tests.live.test_full_disk import free

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which a scheduler ran, and a job to its end."""
    with site(tmp_path_factory.mktemp("stopped"), pretend="1xV100", policy="fifo") as place:
        job = place.submit(1, 2, 0.01)
        until(lambda: place.rows()[job].ended, "the job has ended")
    return place.home


@pytest.fixture
def home(stopped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped, tmp_path / "home", ignore=shutil.ignore_patterns("notify"), copy_function=shutil.copy2))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("running"), pretend="2xV100", policy="fifo") as place:
        yield place


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters of other tests may run on this machine, also some without a token (`test_ray_auth.py`)."""
    monkeypatch.setattr(diagnose_module, "check_ray", lambda: ())


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(home: Path, *more: str) -> tuple[int, Rows]:
        monkeypatch.setattr(sys, "argv", ["rota", "doctor", "--home", str(home), "-o", "json", *more])
        with pytest.raises(SystemExit) as stop:
            main()
        rows = json.loads(capsys.readouterr().out)
        assert all(row["state"] == "ok" or row["next"] for row in rows), "every fault has a next step"
        return int(stop.value.code or 0), rows

    return run


def fault(rows: Rows, check: str, *states: str) -> str:
    """What was found, and what to do, of the check that is not well; there is one."""
    (row,) = (row for row in rows if row["check"] == check and row["state"] in (states or ("fail",)))
    return f"{row['found']} >> {row['next']}"


def faults(rows: Rows) -> list[str]:
    return [row["check"] for row in rows if row["state"] == "fail"]


def test_nothing_fails_where_all_is_well(running: Site, home: Path, doctor: Any) -> None:
    for place in (running.home, home):
        code, rows = doctor(place)
        assert (code, faults(rows)) == (0, []), rows
    assert {"Python", "packages", "home", "disk", "token", "journal", "unknown attempts", "NVML", "parking", "MPS"} <= {
        row["check"] for row in rows
    }


def test_it_changes_nothing(home: Path, doctor: Any) -> None:
    (home / "daemon.json").write_text('{"url": "http://127.0.0.1:1", "pid": 1, "version": "0"}')
    before = {path: path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}
    doctor(home)
    assert {path: path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()} == before


def test_it_speaks_to_people(home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "token").chmod(0o644)
    monkeypatch.setattr(sys, "argv", ["rota", "doctor", "--home", str(home)])
    with pytest.raises(SystemExit) as stop:
        main()
    lines = capsys.readouterr().out.splitlines()
    (at,) = (at for at, line in enumerate(lines) if line.startswith("fail"))
    assert stop.value.code == 1 and "other users can read the token" in lines[at] and lines[at + 1].strip().startswith("Try: rm ")


# The breakages.


def test_a_token_that_others_can_read(home: Path, doctor: Any) -> None:
    (home / "token").chmod(0o644)
    code, rows = doctor(home)
    assert code == 1 and faults(rows) == ["token"]
    assert "mode 644" in fault(rows, "token") and "rm " in fault(rows, "token")


def test_a_token_of_another_scheduler(running: Site, doctor: Any) -> None:
    path = running.home / "token"
    before = path.read_text()
    path.write_text("x" * 43 + "\n")
    try:
        code, rows = doctor(running.home)
    finally:
        path.write_text(before)
    assert code == 1 and faults(rows) == ["scheduler"]
    assert "does not fit this scheduler" in fault(rows, "scheduler") and "kill " in fault(rows, "scheduler")


def test_an_address_where_something_else_listens(running: Site, doctor: Any) -> None:
    path = running.home / "daemon.json"
    before = path.read_text()
    for reads, expected in ((False, "connection refused"), (True, "")):
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            if not reads:
                other.close()
            path.write_text(json.dumps({**json.loads(before), "url": f"http://127.0.0.1:{port}"}))
            stranger = (
                subprocess.Popen([sys.executable, "-c", ANSWERS, str(other.fileno())], pass_fds=[other.fileno()])
                if reads
                else None
            )
            try:
                code, rows = doctor(running.home)
            finally:
                path.write_text(before)
                if stranger is not None:
                    stranger.kill()
                    stranger.wait()
        assert code == 1 and faults(rows) == ["scheduler"]
        assert str(port) in fault(rows, "scheduler") and (expected or "is not Rota") in fault(rows, "scheduler")


ANSWERS = """
import socket, sys
other = socket.socket(fileno=int(sys.argv[1]))
while True:
    connection, _ = other.accept()
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nhi")
    connection.close()
"""


def test_a_scheduler_that_was_killed_and_the_job_that_outlives_it(tmp_path: Path, doctor: Any) -> None:
    with site(tmp_path, pretend="1xV100", policy="fifo") as place:
        job = place.submit(1, 100_000, 0.05)
        until(lambda: place.rows()[job].phase == "running", "the job runs")
        place.kill()
        code, rows = doctor(place.home)
        assert code == 1 and faults(rows) == ["scheduler", "unknown attempts"]
        assert "was killed" in fault(rows, "scheduler") and "daemon.json" in fault(rows, "scheduler")
        assert f"jobs {job} run with a supervisor and without a scheduler" in fault(rows, "unknown attempts")
        assert "rota up" in fault(rows, "scheduler") and "takes them over" in fault(rows, "unknown attempts")
        place.up()
        assert doctor(place.home)[0] == 0, "its next step helps"
        place.client().cancel(job)
        until(lambda: place.rows()[job].ended, "the job is gone")


def test_a_supervisor_that_was_killed_with_its_scheduler(tmp_path: Path, doctor: Any) -> None:
    with site(tmp_path, pretend="1xV100", policy="fifo") as place:
        job = place.submit(1, 100_000, 0.05)
        until(lambda: place.rows()[job].phase == "running", "the job runs")
        (supervisor,) = place.supervisors()
        place.kill()
        os.kill(supervisor, 9)
        until(lambda: not place.supervisors(), "its supervisor is gone")
        _, rows = doctor(place.home)
        assert f"jobs {job} have files" in fault(rows, "unknown attempts", "warn")
        assert "cleans up" in fault(rows, "unknown attempts", "warn")


def test_a_journal_with_a_hole_in_its_file(home: Path, doctor: Any) -> None:
    path = home / "journal.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 8192)
    code, rows = doctor(home)
    assert code == 1 and faults(rows) == ["journal"]
    assert "is damaged" in fault(rows, "journal") and "restore a backup" in fault(rows, "journal")


def test_a_journal_that_is_something_else(home: Path, doctor: Any) -> None:
    for leftover in home.glob("journal.sqlite*"):
        leftover.unlink()
    (home / "journal.sqlite").write_text("my notes\n" * 1000)
    code, rows = doctor(home)
    assert code == 1 and "not a database" in fault(rows, "journal")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE meta SET value = '99' WHERE key = 'schema'", "has schema 99, and this Rota reads 1"),
        ("INSERT INTO snapshots VALUES (1, X'{snapshot}')", f"version 3, and this Rota reads {READABLE[0]} to {VERSION}"),
        ("UPDATE entries SET events = '[{{' WHERE number = 2", "entry 2 cannot be read"),
        ("DELETE FROM entries WHERE number = 2", "some are missing"),
        (
            "UPDATE configurations SET value = json_set(value, '$.settings.telepathy', 1)",
            "the recorded settings name telepathy",
        ),
    ],
)
def test_a_home_of_another_version(home: Path, doctor: Any, statement: str, expected: str) -> None:
    with sqlite3.connect(home / "journal.sqlite") as db:
        db.execute(statement.format(snapshot=zlib.compress(b'{"version": 3}').hex()))
    db.close()
    code, rows = doctor(home)
    assert code == 1 and faults(rows) == ["journal"] and expected in fault(rows, "journal")


def test_a_clock_that_was_wrong_when_the_journal_was_written(tmp_path: Path, doctor: Any) -> None:
    with site(tmp_path, pretend="1xV100", policy="fifo") as place:
        place.down()
        journal = Journal(place.home / "journal.sqlite", JOURNAL_CODEC)
        journal.append(time.time() + 7200, [TimerFired(time.time() + 7200)], None)
        journal.close()
        place.up()
        code, rows = doctor(place.home)
    assert code == 1 and faults(rows) == ["clock"]
    assert "s ahead of the machine's" in fault(rows, "clock") and "set the machine's clock" in fault(rows, "clock")


@pytest.mark.parametrize("package", [True, False])
def test_no_nvml(home: Path, doctor: Any, monkeypatch: pytest.MonkeyPatch, package: bool) -> None:
    """Without the package, and with one that finds no driver."""
    if package:
        from tests.unit.agent.test_gpu_readings import fake
        from tests.unit.agent.test_gpus import fails

        monkeypatch.setitem(sys.modules, "pynvml", fake(nvmlInit=fails))
        _, rows = doctor(home)
        assert "NVML does not answer: no driver" in fault(rows, "NVML", "warn", "fail")
    else:
        monkeypatch.setitem(sys.modules, "pynvml", None)
        code, rows = doctor(home)
        assert code == 1 and "nvidia-ml-py is not installed" in fault(rows, "NVML") and "pip install" in fault(rows, "NVML")


def test_a_spec_with_a_mistake_and_one_without_its_checkpoint_folder(home: Path, doctor: Any, tmp_path: Path) -> None:
    bad, good, stored = tmp_path / "bad.yaml", tmp_path / "good.yaml", tmp_path / "stored.yaml"
    stored.write_text(f"run: train\nworkdir: {tmp_path}\ncheckpoint: {{dir: 's3://bucket/ckpt'}}\n")
    bad.write_text("run: train\ngpu: 4\n")
    good.write_text(f"run: train\nworkdir: {tmp_path}\ncheckpoint: {{dir: ckpt}}\n")
    code, rows = doctor(home, str(bad), str(good), str(stored))
    first, second = (row for row in rows if row["state"] == "fail")
    assert code == 1 and "bad.yaml:2" in first["found"] and "Closest: gpus" in first["found"]
    assert f"checkpoint folder {tmp_path / 'ckpt'} does not exist" in second["found"] and "mkdir -p" in second["next"]


def test_a_job_whose_folders_are_gone(tmp_path: Path, doctor: Any) -> None:
    with site(tmp_path, pretend="1xV100", policy="fifo") as place:
        folder = place.work / "data"
        folder.mkdir()
        place.submit(1, 100_000, 0.05)
        waiting = place.client().submit(run="true", gpus=1, name="waits", workdir=str(folder)).id
        saving = place.client().submit(run="true", gpus=1, name="saves", workdir=str(place.work), checkpoint={"dir": "ckpt"}).id
        place.client().submit(run="true", gpus=1, name="stores", checkpoint={"dir": "s3://bucket/ckpt"})
        folder.rmdir()
        code, rows = doctor(place.home)
        assert code == 1 and f"job {waiting} (waits): its working folder {folder} does not exist" in fault(rows, "jobs")
        assert f"job {saving} (saves): its checkpoint folder" in fault(rows, "jobs", "warn")
        assert "(stores)" not in str(rows)
        for job in place.rows():
            place.client().cancel(job)
        until(lambda: all(row.ended for row in place.rows().values()), "all are gone")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_home_on_a_disk_that_is_full_and_then_read_only(stopped: Path, disk: Path, doctor: Any) -> None:
    home = Path(shutil.copytree(stopped, disk / "home", ignore=shutil.ignore_patterns("notify")))
    (disk / "somebody-else").write_bytes(b"x" * (free(disk) - (1 << 20)))
    code, rows = doctor(home)
    assert code == 1 and faults(rows) == ["disk"] and "no job is accepted or started" in fault(rows, "disk")
    (disk / "somebody-else").unlink()
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    code, rows = doctor(home)
    assert code == 1 and faults(rows) == ["home"] and "read-only" in fault(rows, "home")
