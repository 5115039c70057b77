"""What a job of one user tries against the jobs of others, its supervisor, its agent and root. All of it fails.

The attacker is ana, as a job. The victim is a job of leo, beside it. A script calls `tried(what, act)` for every attempt.
"""

import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.agent import datagrams
from rota.agent.attempt_files import read_order
from rota.agent.constants import ATTEMPT_ID
from rota.agent.disk import REPORT_SOCKET
from rota.agent.job_cgroup import find_group, make_group
from rota.agent.others_job_folder import JOBS
from rota.agent.processes import open_files
from rota.park.park_method import SLEEP
from tests.live.agent.users import ANA, LEO, PATH, PYTHON, TRIED, UserBench
from tests.stranger import as_stranger, root_only
from tests.waiting import alive, until

pytestmark = root_only
ATTACKER = 2
"""Number of the attacking job."""
ALONE = 2_100_000 + os.getpid()
"""A user without a name, of whom no other test has a process."""


@pytest.fixture
def bench(public: Path) -> Iterator[UserBench]:
    bench = UserBench(public / "home")
    try:
        yield bench
    finally:
        bench.clean()


@pytest.fixture
def victim(bench: UserBench) -> int:
    """A job of leo that runs. Its main process."""
    secret = {"PATH": PATH, "SECRET": "of leo"}
    bench.machine.launch(bench.shell("echo set; sleep 1000", LEO.pw_uid, env=secret))
    until(lambda: "set\n" in bench.said())
    return bench.pid()


def attack(bench: UserBench, script: str, user: int = ANA.pw_uid, **how: object) -> list[str]:
    """Run a script as a job of ana or of another user, to its end. Return what was refused. Nothing may have been done."""
    bench.machine.launch(bench.python(TRIED + script, user, job=ATTACKER, **how))  # type: ignore[arg-type]
    ended = bench.wait(ATTACKER)
    said = bench.said(ATTACKER)
    assert ended.outcome == "finished" and "DONE" not in said and "Traceback" not in said, said
    refused = [line for line in said.splitlines() if line.startswith("refused ")]
    assert refused, said
    return refused


def others(bench: UserBench, victim: int) -> list[int]:
    """The victim, its supervisor, the process beside that, and the agent."""
    return [victim, bench.supervisor(), bench.log_writer(), os.getpid()]


# Files and sockets.


def test_files_of_the_agent_and_of_other_jobs_are_out_of_reach(bench: UserBench, victim: int) -> None:
    home = [path for path in bench.home.rglob("*") if not path.is_dir()] + [bench.home / "run", bench.home / "logs"]
    theirs = [bench.run_folder(), bench.run_folder() / REPORT_SOCKET, JOBS]
    script = f"""
for path in {[str(path) for path in home + theirs]!r}:
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_CREAT, os.O_RDONLY | os.O_DIRECTORY):
        tried(path, lambda: os.open(path, flags))
    for act in (os.listdir, os.unlink, os.rmdir, lambda path: os.rename(path, path + "2"), lambda path: os.chmod(path, 0o777)):
        tried(path, lambda: act(path))
tried("a folder in the place of a job's", lambda: os.mkdir({str(JOBS / "mine")!r}))
"""
    refused = attack(bench, script)
    assert len(refused) == 9 * len(home + theirs) + 1 and len(home) > 6


def test_a_stranger_reads_nothing(bench: UserBench, victim: int) -> None:
    paths = [*bench.home.rglob("*"), bench.run_folder(), bench.run_folder() / REPORT_SOCKET, bench.folder_of(LEO.pw_uid)]

    def reads() -> None:
        opened = []
        for path in paths:
            try:
                opened.append(os.open(path, os.O_RDONLY))
            except OSError:
                continue
        assert not opened

    assert len(paths) > 10 and as_stranger(reads) == 0


def test_datagrams_to_supervisors_of_others_are_refused(bench: UserBench, victim: int) -> None:
    boxes = [bench.folder() / "ctl", bench.home / "run/notify", bench.run_folder() / REPORT_SOCKET]
    boxes.append(bench.folder(ATTACKER) / "ctl")
    script = f"""
box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for path in {[str(path) for path in boxes]!r}:
    for message in ({{"op": "kill", "sequence": 99}}, {{"op": "report", "steps_done": 666}}):
        tried(path, lambda: box.sendto(json.dumps(message).encode(), path))
"""
    assert len(attack(bench, script)) == 8
    assert alive(victim) and bench.part().steps_done == 0


def test_only_processes_of_the_jobs_user_report_its_progress(bench: UserBench, victim: int) -> None:
    """Root can write to the socket, and is still another user. So is who gets the socket from elsewhere."""
    report = json.dumps({"op": "report", "steps_total": 666}).encode()
    assert datagrams.send(bench.run_folder(), REPORT_SOCKET, report)
    script = """
import socket
box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
box.sendto(b'{"op": "report", "steps_done": 7}', "tell")
"""
    own = [PYTHON, "-c", script]
    subprocess.run(own, user=LEO.pw_uid, group=LEO.pw_gid, extra_groups=[], cwd=bench.run_folder(), env={}, check=True)
    until(lambda: bench.part().steps_done == 7)
    assert bench.part().steps_total is None


def test_a_report_with_open_files_leaves_none_in_the_supervisor(bench: UserBench) -> None:
    script = """
import array
box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
files = array.array("i", [os.open("/etc/passwd", os.O_RDONLY) for _ in range(50)])
for step in range(1, 6):
    box.sendmsg([json.dumps({"op": "report", "steps_done": step}).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)],
        0, os.environ["ROTA_RUN_DIR"] + "/tell")
signal.pause()
"""
    bench.machine.launch(bench.python(TRIED + script, ANA.pw_uid))
    until(lambda: bench.part().steps_done == 5, bench.said())
    assert "/etc/passwd" not in open_files(bench.supervisor())


@pytest.mark.parametrize("number", [10**400, -(10**400), 1e308 * 10])
def test_no_number_in_a_report_ends_the_supervisor(bench: UserBench, number: float) -> None:
    messages = [
        {"op": "report", "steps_done": number, "steps_total": number, "steps_saved": number, "metrics": {"x": number}},
        *({"op": op, "pid": number, "gib": number} for op in ("hooked", "ringing", "parked", "resumed", "later", "unparkable")),
        {"op": "report", "steps_done": 3},
    ]
    script = f"""
box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for text in {[json.dumps(message) for message in messages]!r}:
    box.sendto(text.encode(), os.environ["ROTA_RUN_DIR"] + "/tell")
signal.pause()
"""
    bench.machine.launch(bench.python(TRIED + script, ANA.pw_uid, job=ATTACKER))
    until(lambda: bench.part(ATTACKER).steps_done == 3, bench.said(ATTACKER))
    assert bench.part(ATTACKER).state == "running"


FALSE_REPORT = """
box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
def tell(op, **more):
    box.sendto(json.dumps({"op": op, "pid": os.getpid(), **more}).encode(), os.environ["ROTA_RUN_DIR"] + "/tell")
def damaged(*given):
    tell("damaged", mib=10**4000)
    os._exit(1)
signal.signal(45, damaged)
tell("hooked")
"""


def test_a_job_that_was_never_parked_cannot_say_that_its_memory_was_damaged(bench: UserBench) -> None:
    """Its attempt would count as lost and not as failed, so it would be started again at once and for ever."""
    bench.machine.launch(bench.python(TRIED + FALSE_REPORT + 'tell("ringing"); tell("parked"); damaged()', ANA.pw_uid))
    ended = bench.wait()
    assert (ended.outcome, ended.exit_code, ended.damaged_mib) == ("failed", 1, None)


def test_the_number_in_a_false_report_of_damaged_memory_fills_no_texts(bench: UserBench) -> None:
    """The texts are in the journal, and operators read them."""
    script = TRIED + FALSE_REPORT + 'print("set", flush=True); signal.pause()'
    bench.machine.launch(bench.python(script, ANA.pw_uid)._replace(park_method=SLEEP))
    until(lambda: "set\n" in bench.said())
    assert bench.machine.park(1, 1, 2)
    ended = bench.wait()
    assert ended.outcome != "failed" and ended.problem is not None
    assert "came back different" in ended.problem and len(ended.problem) < 100, ended.problem


# Processes.


def test_signals_reach_only_ones_own_processes(bench: UserBench, victim: int) -> None:
    script = f"""
for pid in {others(bench, victim)!r} + [os.getppid(), 1]:
    for number in (0, signal.SIGSTOP, signal.SIGKILL, 45):
        tried((pid, number), lambda: os.kill(pid, number))
    tried((pid, "handle"), lambda: signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGKILL))
for pid in {others(bench, victim)[:3]!r}:
    tried((pid, "group"), lambda: os.killpg(pid, signal.SIGKILL))
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.kill(-1, signal.SIGTERM)
"""
    # The last signal goes to all of the user's own processes, and other tests have some of ana's.
    assert len(attack(bench, script, ALONE)) == 33
    assert all(map(alive, others(bench, victim)))


def test_processes_of_others_cannot_be_traced_or_looked_into(bench: UserBench, victim: int) -> None:
    script = f"""
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *words):
    if getattr(libc, name)(*words) == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
class Part(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
buffer = ctypes.create_string_buffer(8)
local = Part(ctypes.addressof(buffer), 8)
for pid in {others(bench, victim)!r} + [os.getppid()]:
    for request in (16, 0x4206):
        tried((pid, "ptrace"), lambda: call("ptrace", request, pid, None, None))
    for name in ("environ", "mem", "maps", "auxv", "io", "stack", "syscall"):
        tried((pid, name), lambda: open(f"/proc/{{pid}}/{{name}}", "rb").read(10))
    for name in ("cwd", "root", "exe", "ns/pid"):
        tried((pid, name), lambda: os.readlink(f"/proc/{{pid}}/{{name}}"))
    for name in ("fd", "task/%d/fd" % pid, "map_files"):
        tried((pid, name), lambda: os.listdir(f"/proc/{{pid}}/{{name}}"))
    tried((pid, "memory"), lambda: call("process_vm_readv", pid, ctypes.byref(local), 1, ctypes.byref(Part(4096, 8)), 1, 0))
    tried((pid, "oom"), lambda: open(f"/proc/{{pid}}/oom_score_adj", "w").write("1000"))
    tried((pid, "limits"), lambda: __import__("resource").prlimit(pid, 7, (0, 0)))
    tried((pid, "priority"), lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
"""
    assert len(attack(bench, script)) == 20 * 5


def test_a_job_gains_no_rights(bench: UserBench, victim: int) -> None:
    """A program that would run as root, such as sudo, runs as the user."""
    tool = bench.work / "tool"
    shutil.copy(shutil.which("id") or "", tool)
    tool.chmod(0o4755)
    script = f"""
import subprocess
for act in (lambda: os.setuid(0), lambda: os.seteuid({LEO.pw_uid}), lambda: os.setgid(0), lambda: os.setgroups([0])):
    tried("identity", act)
tried("priority", lambda: os.nice(-5))
tried("limits", lambda: __import__("resource").setrlimit(7, (1 << 40, 1 << 40)) if 0 else os.chroot("/"))
for device in ("/dev/mem", "/dev/kmsg", "/dev/port"):
    tried(device, lambda: os.open(device, os.O_RDWR))
tried("a device", lambda: os.mknod("disk", stat.S_IFBLK | 0o600, os.makedev(8, 0)))
tried("a file for another user", lambda: os.chown(".", {LEO.pw_uid}, -1))
print("tool says", subprocess.run([{str(tool)!r}, "-u"], capture_output=True, text=True).stdout, flush=True)
"""
    assert len(attack(bench, script)) == 11
    assert f"tool says {ANA.pw_uid}\n" in bench.said(ATTACKER)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the system calls are those of x86_64")
def test_the_session_keyring_of_root_is_not_the_jobs(bench: UserBench) -> None:
    """Whoever has the keyring may read its keys, whatever the owner."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(250, 1, None, 0, 0) < 0:
        pytest.skip("this kernel has no keyrings")
    key = libc.syscall(248, b"user", b"rota-test", b"secret", 6, -3)
    assert key > 0
    libc.syscall(250, 5, key, 0x3F000000)  # those who have it may do anything, others nothing
    bench.open()
    script = f"""
libc = ctypes.CDLL(None, use_errno=True)
def call(*words):
    if libc.syscall(*words) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
tried("read", lambda: call(250, 11, {key}, ctypes.create_string_buffer(10), 10))
tried("find", lambda: call(250, 10, -3, b"user", b"rota-test", 0))
"""
    assert len(attack(bench, script)) == 2


def test_nothing_of_a_job_lives_on_after_its_end(bench: UserBench) -> None:
    """It leaves its parents, its session, its environment and its open files, and forgets to die with its parent."""
    script = """
libc = ctypes.CDLL(None)
ready, said = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        libc.prctl(1, 0)
        os.write(said, str(os.getpid()).encode())
        os.closerange(0, 100)
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(1000)"], {})
    os._exit(0)
print("left", os.read(ready, 20).decode(), flush=True)
"""
    bench.machine.launch(bench.python(TRIED + script, ANA.pw_uid))
    assert bench.wait().outcome == "finished"
    left = next(int(line.split()[1]) for line in bench.said().splitlines() if line.startswith("left "))
    assert not alive(left)


@pytest.mark.parametrize("end", ["kill", "lease", "supervisor"])
def test_processes_that_start_others_faster_than_they_are_found_are_ended(bench: UserBench, end: str) -> None:
    """A chain: each process starts the next one and leaves. All have the same file locked."""
    probe = make_group(f"test-{os.getpid()}")
    if probe is None:
        pytest.skip("root can make no control group of version 2 here")
    probe.rmdir()
    script = """
import fcntl
lock = os.open("lock", os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
ctypes.CDLL(None).prctl(1, 0)
for _ in range(3):
    if os.fork() == 0:
        print("set", flush=True)
        while True:
            os.setsid() if os.getsid(0) != os.getpid() else None
            if os.fork():
                os._exit(0)
signal.pause()
"""
    bench.machine.launch(bench.python(TRIED + script, ANA.pw_uid, grace_seconds=0.0))
    until(lambda: "set\n" in bench.said())
    if end == "kill":
        bench.machine.kill(1, 1, 2)
    elif end == "lease":
        bench.machine.renew(1, 1, 0.0)
    else:
        os.kill(bench.supervisor(), signal.SIGKILL)
    assert "processes do not die" not in (bench.wait().problem or "")
    with (bench.folder_of(ANA.pw_uid) / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    order = read_order(bench.folder())
    assert order is not None and find_group(order.env[ATTEMPT_ID]) is None


def test_a_job_that_ignores_the_death_of_its_supervisor_dies_with_it(bench: UserBench) -> None:
    script = "ctypes.CDLL(None).prctl(1, 0); signal.signal(15, signal.SIG_IGN); print('set', flush=True)\nwhile 1: signal.pause()"
    bench.machine.launch(bench.python(TRIED + script, ANA.pw_uid))
    until(lambda: "set\n" in bench.said())
    pid = bench.pid()
    os.kill(bench.supervisor(), signal.SIGKILL)
    assert bench.wait().outcome == "lost" and not alive(pid)


def test_a_process_of_another_user_that_is_given_the_mark_is_not_killed(bench: UserBench) -> None:
    name = f"rota-test-{os.getpid()}"
    takes = f"""
import array, socket, time
box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); box.bind("\\0{name}")
box.recvmsg(10, 100); print("taken", flush=True); time.sleep(1000)
"""
    script = f"""
import array, time
box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
marks = [n for n in range(3, 64) if os.path.lexists(f"/proc/self/fd/{{n}}") and "memfd" in os.readlink(f"/proc/self/fd/{{n}}")]
tried("write", lambda: os.write(marks[0], b"x"))
tried("grow", lambda: os.ftruncate(marks[0], 1 << 30))
while True:
    try:
        box.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", marks))], 0, "\\0{name}")
        break
    except ConnectionRefusedError:
        time.sleep(0.01)
print("sent", len(marks), flush=True)
signal.pause()
"""
    bench.machine.launch(bench.python(TRIED + script, ANA.pw_uid))
    until(lambda: bench.said().count("refused") == 2)
    command = [PYTHON, "-c", takes]
    other = subprocess.Popen(command, user=LEO.pw_uid, group=LEO.pw_gid, extra_groups=[], env={}, stdout=subprocess.PIPE, cwd="/")
    assert other.stdout is not None
    try:
        assert other.stdout.readline() == b"taken\n"
        until(lambda: "sent 1\n" in bench.said(), bench.said())
        assert any("memfd:rota-" in path for path in open_files(other.pid))
        os.kill(bench.supervisor(), signal.SIGKILL)
        assert bench.wait().outcome == "lost"
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
        other.stdout.close()


def test_two_jobs_of_a_user_are_separated_as_far_as_unix_separates_a_user(bench: UserBench) -> None:
    """They are not: the pages say so. Their supervisors are out of reach for both."""
    bench.machine.launch(bench.shell("echo set; sleep 1000", ANA.pw_uid))
    until(lambda: "set\n" in bench.said())
    script = f"""
os.kill({bench.pid()}, 0)
tried("supervisor", lambda: os.kill({bench.supervisor()}, 0))
"""
    assert len(attack(bench, script)) == 1
