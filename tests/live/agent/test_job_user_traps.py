"""What a user puts into the way of root: links, pipes, programs, libraries and variables. None of it leads root anywhere."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.agent import datagrams, facts_as_user, start_as_user
from rota.agent.node_parking import with_parking
from rota.agent.other_programs import OtherPrograms
from rota.agent.others_job_folder import JOBS
from tests.live.agent.users import ANA, LEO, PYTHON, TRIED, UserBench
from tests.stranger import root_only
from tests.waiting import until

pytestmark = root_only


@pytest.fixture
def bench(public: Path) -> Iterator[UserBench]:
    bench = UserBench(public / "home")
    try:
        yield bench
    finally:
        bench.clean()


@pytest.mark.parametrize(
    "trap",
    [
        'os.symlink(precious, "size.json")',
        'os.link("tell", "size.json"); os.symlink(precious, "size.json.new")',
        'os.mkfifo("size.json"); os.mkfifo("size.json.new")',
        'os.unlink("tell"); os.symlink(precious, "tell"); os.symlink("/etc/shadow", "size.json.new")',
    ],
)
def test_what_lies_in_the_jobs_folder_leads_root_nowhere(bench: UserBench, trap: str) -> None:
    precious = bench.work / "precious"
    precious.write_text("root's")
    precious.chmod(0o600)
    before = precious.stat()
    there = (
        f'precious = {str(precious)!r}\nos.chdir(os.environ["ROTA_RUN_DIR"])\n{trap}\nprint("set", flush=True)\nsignal.pause()'
    )
    bench.machine.launch(bench.python(TRIED + there, ANA.pw_uid))
    until(lambda: "set\n" in bench.said(), bench.said())
    assert bench.machine.resize(1, 1, 2, 128)
    until(lambda: bench.part().start_sequence == 2)
    written = bench.run_folder() / "size.json"
    assert json.loads(written.read_text()) == {"batch_size": 128} and not written.is_symlink()
    bench.machine.kill(1, 1, 3)
    bench.wait()
    bench.machine.forget(1, 1)
    until(lambda: not bench.run_folder().exists())
    after = precious.stat()
    assert precious.read_text() == "root's" and (after.st_mode, after.st_uid, after.st_mtime) == (
        before.st_mode,
        before.st_uid,
        before.st_mtime,
    )


def test_a_folder_in_the_place_of_the_size_file_holds_up_nothing_else(bench: UserBench) -> None:
    script = 'os.makedirs(os.environ["ROTA_RUN_DIR"] + "/size.json/deep"); print("set", flush=True); signal.pause()'
    bench.machine.launch(bench.python(TRIED + script, ANA.pw_uid))
    until(lambda: "set\n" in bench.said())
    assert bench.machine.resize(1, 1, 2, 128)
    bench.machine.kill(1, 1, 3)
    assert bench.wait().outcome == "lost"


def test_words_for_a_hook_are_not_sent_through_a_link(bench: UserBench) -> None:
    """A `park-PID` that leads to a socket which only root can write to."""
    box = datagrams.listen(bench.home, "private")
    script = f"""
os.chdir(os.environ["ROTA_RUN_DIR"])
os.symlink({str(bench.home / "private")!r}, f"park-{{os.getpid()}}")
box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for op in ("hooked", "ringing"):
    box.sendto(json.dumps({{"op": op, "pid": os.getpid()}}).encode(), "tell")
box.sendto(b'{{"op": "report", "steps_done": 3}}', "tell")
signal.pause()
"""
    bench.machine.launch(bench.python(TRIED + script, ANA.pw_uid, job=1))
    until(lambda: bench.part().steps_done == 3, bench.said())
    assert datagrams.receive(box, 10) == []
    box.close()


def test_folders_that_change_while_they_are_removed_lead_nowhere(bench: UserBench) -> None:
    precious = bench.work / "precious"
    precious.mkdir()
    for number in range(20):
        (precious / str(number)).write_text("stays")
    script = """
os.chdir(os.environ["ROTA_RUN_DIR"])
for number in range(300):
    os.makedirs(f"{number}/a/b")
print("set", flush=True)
"""
    bench.machine.launch(bench.python(TRIED + script, ANA.pw_uid))
    assert bench.wait().outcome == "finished", bench.said()
    swap = f"""
import os
here = os.open(os.environ["PLACE"], os.O_RDONLY)
print("there", flush=True)
while True:
    names = [name for name in os.listdir(here) if not name.startswith("x")]
    if not names:
        break
    for name in names:
        try:
            os.rename(name, "x" + name, src_dir_fd=here, dst_dir_fd=here)
            os.symlink({str(precious)!r}, name, dir_fd=here)
        except OSError:
            pass
"""
    env = {"PLACE": str(bench.run_folder())}
    other = subprocess.Popen(
        [PYTHON, "-c", swap], user=ANA.pw_uid, group=ANA.pw_gid, extra_groups=[], env=env, stdout=subprocess.PIPE, cwd="/"
    )
    assert other.stdout is not None
    try:
        assert other.stdout.readline() == b"there\n"
        bench.machine.forget(1, 1)
        until(lambda: not bench.run_folder().exists())
        bench.machine.poll()
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
    assert len(list(precious.iterdir())) == 20


def test_a_folder_of_another_user_is_not_entered_through_a_link(bench: UserBench) -> None:
    link = bench.folder_of(ANA.pw_uid) / "link"
    link.symlink_to(bench.folder_of(LEO.pw_uid))
    bench.machine.launch(bench.shell("true", ANA.pw_uid, workdir=str(link)))
    assert "cannot enter the working directory" in (bench.wait().problem or "")


def test_checkpoints_go_through_a_link_as_the_user(bench: UserBench) -> None:
    saved, secret = bench.folder_of(ANA.pw_uid) / "saved", bench.folder_of(LEO.pw_uid)
    saved.symlink_to(secret)
    script = """
from rota import train
with train.session(save=lambda folder: (folder / "n").write_text("1"), load=print, every_seconds=0.01) as job:
    for _ in job.steps(range(100)):
        import time; time.sleep(0.01)
"""
    env = {"ROTA_CHECKPOINT_DIR": str(saved), "ROTA_JOB_ID": "1"}
    bench.machine.launch(bench.python(script, ANA.pw_uid, env=env, progress="session"))
    ended = bench.wait()
    assert ended.steps_saved == 0 and list(secret.iterdir()) == []


def test_variables_of_a_job_change_nothing_that_root_runs(bench: UserBench) -> None:
    """Programs, modules and libraries of ana note who ran them."""
    own = bench.folder_of(ANA.pw_uid)
    (own / "sitecustomize.py").write_text(f"import os\nopen({str(own)!r} + f'/py-{{os.getuid()}}', 'w')\n")
    for name in ("python", "python3", "rm", "sh", "nvidia-smi", "id", "true"):
        (own / name).write_text(f"#!/bin/sh\n/usr/bin/touch {own}/sh-$(/usr/bin/id -u)\nexec /bin/sleep 0\n")
        (own / name).chmod(0o755)
    subprocess.run(["chown", "-R", f"{ANA.pw_uid}:{ANA.pw_gid}", str(own)], check=True)
    env = {name: str(own) for name in ("PYTHONPATH", "PATH", "LD_LIBRARY_PATH", "GCONV_PATH", "HOME", "PYTHONUSERBASE")}
    env |= {"LD_PRELOAD": f"{own}/none.so", "PYTHONSTARTUP": f"{own}/sitecustomize.py", "BASH_ENV": f"{own}/rm"}
    order = bench.order("python", "train.py", env=env, workdir=str(own))._replace(uid=ANA.pw_uid, may_park=True)
    for real_gpus, job in ((False, 1), (True, 2)):
        bench.machine.launch(with_parking(order._replace(job=job, log=str(bench.log(job))), real_gpus=real_gpus))
        bench.wait(job)
        bench.machine.forget(job, 1)
    until(lambda: not bench.run_folder(2).exists())
    ran = {path.name for path in own.iterdir() if path.name.startswith(("py-", "sh-"))}
    assert ran and all(name.endswith(f"-{ANA.pw_uid}") for name in ran), ran


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_library_of_the_job_is_never_loaded_by_root(bench: UserBench) -> None:
    """Rota tries whether the allocator for parking can be loaded, and the job's packages may have one."""
    own = bench.folder_of(ANA.pw_uid)
    packages = own / "lib/python3.11/site-packages"
    (packages / "torch").mkdir(parents=True)
    (packages / "torch/version.py").write_text("cuda: str = '12.0'\n")
    code = own / "code.c"
    code.write_text(
        "#include <stdio.h>\n#include <unistd.h>\n#include <fcntl.h>\n__attribute__((constructor)) void f(void)"
        f' {{ char n[300]; snprintf(n, 300, "{own}/loaded-%d", getuid()); close(open(n, O_CREAT | O_WRONLY, 0600)); }}\n'
    )
    library = packages / "torch_memory_saver_hook_mode_preload_cu12.abi3.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(code)], check=True)
    (own / "bin").mkdir()
    (own / "bin/python").symlink_to(PYTHON)
    (own / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
    subprocess.run(["chown", "-R", f"{ANA.pw_uid}:{ANA.pw_gid}", str(own)], check=True)
    order = bench.order(f"{own}/bin/python", "-c", "0", workdir=str(own))._replace(uid=ANA.pw_uid, may_park=True)
    found = with_parking(order, real_gpus=True)
    pages, preloaded = found.env["LD_PRELOAD"].split(":")
    assert found.park_method == "preload" and preloaded == str(library)
    assert Path(pages).is_relative_to(JOBS) and Path(pages).stat().st_uid == 0, "a copy that only root can change"
    bench.machine.launch(found)
    assert bench.wait().outcome == "finished", bench.said()
    assert {path.name for path in own.glob("loaded-*")} == {f"loaded-{ANA.pw_uid}"}


def test_a_pipe_in_the_place_of_a_file_holds_up_no_launch(bench: UserBench) -> None:
    own = bench.folder_of(ANA.pw_uid)
    os.mkfifo(own / "train")
    (own / "train").chmod(0o777)
    order = bench.order("./train", workdir=str(own))._replace(uid=ANA.pw_uid, may_park=True)
    assert "is not Python" in (with_parking(order, real_gpus=True).park_reason or "")


def test_a_user_whose_files_hold_up_a_launch_holds_up_one(bench: UserBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent waits for the process that reads them."""
    monkeypatch.setattr(facts_as_user, "_ended_s", {})
    monkeypatch.setattr(facts_as_user, "SECONDS", 0.0)
    order = bench.order("./train")._replace(uid=ANA.pw_uid, may_park=True)
    assert "it took more than 0 s" in (with_parking(order, real_gpus=True).park_reason or "")
    monkeypatch.setattr(facts_as_user, "SECONDS", 60.0)
    found = with_parking(order, real_gpus=True)
    assert found.park_method == "exit" and "tried 10 minutes later" in (found.park_reason or "")
    monkeypatch.setattr(facts_as_user, "_ended_s", {})
    assert "is not Python" in (with_parking(order, real_gpus=True).park_reason or "")


def test_a_crash_leaves_no_core_file(bench: UserBench) -> None:
    bench.machine.launch(bench.shell("kill -ABRT $$", ANA.pw_uid))
    assert bench.wait().exit_code == -signal.SIGABRT
    assert list(bench.folder_of(ANA.pw_uid).iterdir()) == []


def test_a_user_who_stops_the_new_process_holds_up_its_supervisor_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_as_user, "START_SECONDS", 0.1)
    report, reports = os.pipe()
    stopped = subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 19)"], pass_fds=(reports,))
    try:
        assert b"was not started within" in start_as_user._result(stopped.pid, report)
        assert stopped.wait() == -signal.SIGKILL
    finally:
        os.close(report)
        os.close(reports)


def test_a_program_that_looks_like_a_supervisor_is_not_taken_for_one(bench: UserBench) -> None:
    words = [PYTHON, "-c", "import time; time.sleep(1000)", "rota.agent.supervisor", str(bench.home / "run/1/1")]
    disguised = subprocess.Popen(words, user=ANA.pw_uid, group=ANA.pw_gid, extra_groups=[], cwd="/")
    own = subprocess.Popen(words, cwd="/")
    try:
        others = OtherPrograms(bench.home)
        until(lambda: others._is_supervisor(own.pid), "the command line of a program of the agent's own user counts")
        assert not others._is_supervisor(disguised.pid)
    finally:
        for process in (disguised, own):
            process.kill()
            process.wait()
