"""A job of another Unix user runs as that user, and everything that works for a job of the agent's own user works for it."""

import json
import os
import pwd
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.agent import start_as_user
from rota.agent.attempt_files import read_order, read_status
from rota.agent.child import NotStarted
from rota.agent.constants import ATTEMPT_ID
from rota.agent.job_cgroup import find_group
from rota.agent.others_job_folder import JOBS
from rota.agent.user_limits import LIMITS_FILE
from tests.live.agent.users import ANA, LEO, NAMELESS, PATH, PYTHON, UserBench, with_groups
from tests.stranger import as_stranger, root_only
from tests.waiting import alive, until

pytestmark = root_only


@pytest.fixture
def bench(public: Path) -> Iterator[UserBench]:
    bench = UserBench(public / "home")
    try:
        yield bench
    finally:
        bench.clean()


LOOKS = """
import json, os, resource, sys
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
mask = os.umask(0)
print(json.dumps({
    "uid": os.getresuid(), "gid": os.getresgid(), "groups": sorted(set(os.getgroups())), "umask": mask, "env": dict(os.environ),
    "core": resource.getrlimit(resource.RLIMIT_CORE)[0], "caps": [status[f"Cap{kind}"].strip() for kind in ("Prm", "Eff", "Amb")],
    "rights": status["NoNewPrivs"].strip(), "cwd": os.getcwd(), "leader": os.getsid(0) == os.getpid(),
    "files": sorted(os.readlink(f"/proc/self/fd/{n}") for n in range(3, 64) if os.path.lexists(f"/proc/self/fd/{n}")),
    "hard": {n: resource.getrlimit(n)[1] for n in range(16)}, "oom": int(open("/proc/self/oom_score_adj").read()),
}), flush=True)
open("/dev/stdout", "w").write("reopened\\n")
"""


def seen(bench: UserBench, job: int = 1) -> dict[str, object]:
    assert bench.wait(job).outcome == "finished", bench.said(job)
    return json.loads(next(line for line in bench.said(job).splitlines() if line.startswith("{")))  # type: ignore[no-any-return]


def test_a_job_runs_with_the_number_groups_mask_and_limits_of_its_user(bench: UserBench, monkeypatch: pytest.MonkeyPatch) -> None:
    user = with_groups()
    monkeypatch.setenv("ROTA_TOKEN", "of root")
    bench.machine.launch(bench.python(LOOKS, user.pw_uid, env={"MINE": "1"}))
    found = seen(bench)
    assert found["uid"] == [user.pw_uid] * 3 and found["gid"] == [user.pw_gid] * 3
    assert found["groups"] == sorted({user.pw_gid, *os.getgrouplist(user.pw_name, user.pw_gid)})
    assert (found["umask"], found["core"], found["rights"], found["leader"]) == (0o022, 0, "1", True)
    assert found["caps"] == ["0" * 16] * 3 and found["oom"] >= 0
    for number, most in found["hard"].items():
        own = resource.getrlimit(int(number))[1]
        assert own == resource.RLIM_INFINITY or 0 <= most <= own
    env = found["env"]
    assert (env.pop("HOME"), env.pop("USER"), env.pop("LOGNAME")) == (user.pw_dir, user.pw_name, user.pw_name)
    assert env.pop("ROTA_RUN_DIR") == str(bench.run_folder()) and env.pop("ROTA_LIFE") and env.pop("MINE") == "1"
    assert env.keys() <= {"PATH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "LC_CTYPE"}
    assert str(bench.home) not in json.dumps(found) and found["cwd"] == str(bench.folder_of(user.pw_uid))
    assert [name.partition("rota-")[0] for name in found["files"]] == ["/memfd:"]
    assert "reopened" in bench.said()


LIMITS = """
import json, os, resource
os.close(os.open("/dev/null", os.O_RDONLY))
print(json.dumps({name: resource.getrlimit(getattr(resource, "RLIMIT_" + name)) for name in ("NOFILE", "CORE", "STACK", "AS")}))
print("by the shell", *(os.popen(f"ulimit -{kind} -n").read().strip() for kind in "SH"), flush=True)
"""


def test_a_job_has_the_limits_that_the_node_gives_its_user(
    bench: UserBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf, more = tmp_path / "limits.conf", tmp_path / "limits.d"
    more.mkdir()
    conf.write_text(f"* - nofile 64\n{ANA.pw_name} soft nofile 40\n* hard core 8\n* soft stack oops\n")
    (more / "gpus.conf").write_text(f"{ANA.pw_name} hard nofile 50\n@{ANA.pw_name} - as 4000000\n{LEO.pw_name} - nofile 9\n")
    monkeypatch.setenv(LIMITS_FILE, str(conf))
    bench.machine.launch(bench.python(LIMITS, ANA.pw_uid, env={LIMITS_FILE: "/mine"}))
    found = seen(bench)
    assert found["NOFILE"] == [40, 50] and found["CORE"] == [0, 8192] and found["AS"] == [4_096_000_000] * 2
    assert found["STACK"] == list(resource.getrlimit(resource.RLIMIT_STACK)) and "by the shell 40 50" in bench.said()
    status = read_status(bench.folder())
    assert status is not None and status.limits_problem is not None
    assert status.limits_problem.endswith(f"are left out: line 4 of {conf}")


def test_what_the_submission_sets_stands(bench: UserBench) -> None:
    bench.machine.launch(bench.python(LOOKS, ANA.pw_uid, env={"HOME": "/mine", "USER": "me", "LOGNAME": "also me"}))
    env = seen(bench)["env"]
    assert (env["HOME"], env["USER"], env["LOGNAME"]) == ("/mine", "me", "also me")


def test_a_user_without_a_name_has_their_own_group_alone(bench: UserBench) -> None:
    bench.machine.launch(bench.python(LOOKS, NAMELESS))
    found = seen(bench)
    assert found["uid"] == [NAMELESS] * 3 and found["gid"] == [NAMELESS] * 3 and found["groups"] == [NAMELESS]
    assert found["env"]["USER"] == str(NAMELESS) and found["env"]["HOME"] == "/"


def test_a_number_without_a_name_never_becomes_a_group_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Number 27 may be free as a user, and is the group sudo on many machines."""
    import grp

    from rota.agent import job_user

    named = {user.pw_uid for user in pwd.getpwall()}
    free = [group.gr_gid for group in grp.getgrall() if group.gr_gid not in named]
    assert all(job_user.find_user(gid).gid == job_user.OVERFLOW_GID for gid in free[:20])


def test_the_agents_own_user_starts_as_before(bench: UserBench) -> None:
    bench.machine.launch(bench.sh("id -u")._replace(uid=0))
    assert bench.wait().outcome == "finished" and "\n0\n" in bench.said()
    assert not bench.run_folder().exists() and (bench.folder() / "job").exists()


def problem(bench: UserBench, job: int = 1) -> str:
    ended = bench.wait(job)
    assert (ended.outcome, ended.exit_code, ended.started_s) == ("failed", 126, None)
    assert f"--- rota: failed: {ended.problem} ---" in bench.said(job)
    order = read_order(bench.folder(job))
    assert order is not None and find_group(order.env[ATTEMPT_ID]) is None, "nothing is left"
    return ended.problem or ""


def test_a_user_that_a_node_of_a_cluster_does_not_have_is_named_with_the_node(bench: UserBench) -> None:
    bench.machine.launch(bench.shell("true", NAMELESS, env={"PATH": PATH, "ROTA_NODE": "n1"}))
    assert problem(bench) == f"user {NAMELESS} does not exist on node {os.uname().nodename}"


def test_a_working_directory_that_the_user_cannot_enter_is_named_with_the_user(bench: UserBench) -> None:
    folder = bench.folder_of(LEO.pw_uid)
    bench.machine.launch(bench.shell("true", ANA.pw_uid, workdir=str(folder)))
    who = f"user {ANA.pw_name} (uid {ANA.pw_uid})"
    assert problem(bench) == f"{who} cannot enter the working directory {folder}: permission denied"


def test_a_command_is_looked_for_as_the_user(bench: UserBench) -> None:
    tool = bench.folder_of(LEO.pw_uid) / "tool"
    tool.write_text("#!/bin/sh\necho ran")
    tool.chmod(0o755)
    bench.machine.launch(bench.order(str(tool), workdir="/")._replace(uid=ANA.pw_uid))
    assert f"the command '{tool}' cannot be run by user {ANA.pw_name}" in problem(bench)
    assert "permission denied" in bench.said() and "ran" not in bench.said().splitlines()


def test_an_agent_that_is_not_root_refuses_to_run_a_job_as_the_wrong_user(bench: UserBench) -> None:
    order = bench.shell("true", ANA.pw_uid)

    def refused() -> None:
        with pytest.raises(NotStarted, match=rf"runs as user \d+, and only root can start a job of user {ANA.pw_uid}"):
            start_as_user.user_of(order)

    assert as_stranger(refused) == 0


# What works for a job of the agent's own user.

COUNTS = """
import os, time
for step in range(1, 1_000_000):
    print("step", step, "of", os.getpid(), flush=True)
    time.sleep(0.01)
"""
SAVES = """
import sys, time
from pathlib import Path
from rota import train
state = {"n": 0}
def save(folder): (Path(folder) / "n").write_text(str(state["n"]))
def load(folder): state["n"] = int((Path(folder) / "n").read_text())
with train.session(save=save, load=load) as job:
    print("begins with", state["n"], flush=True)
    for _ in job.steps(range(200_000)):
        state["n"] += 1
        job.log(loss=1.0 / state["n"])
        time.sleep(0.005)
"""


def parkable(bench: UserBench, script: str) -> None:
    from rota.agent.node_parking import with_parking

    order = bench.python(script, ANA.pw_uid, progress=r"step (\d+)")._replace(may_park=True)
    bench.machine.launch(with_parking(order, real_gpus=False))
    until(lambda: bench.part().steps_done > 3, "its first steps")


def test_it_is_parked_and_resumed_in_the_same_process(bench: UserBench) -> None:
    parkable(bench, COUNTS)
    pid = bench.pid()
    for sequence in (2, 4):
        assert bench.machine.park(1, 1, sequence)
        parked = bench.wait(state="parked")
        assert parked.parking_problem is None and alive(pid)
        assert bench.machine.resume(1, 1, sequence + 1, 300.0)
        assert bench.wait(state="running").resumed_s is not None
        until(lambda parked=parked: bench.part().steps_done > parked.steps_done, "more steps")
    assert bench.pid() == pid
    assert {line.split()[3] for line in bench.said().splitlines() if line.startswith("step ")} == {str(pid)}


def test_it_is_suspended_and_saves(bench: UserBench) -> None:
    bench.machine.launch(bench.shell("trap 'echo saved; exit 75' TERM; echo set; while :; do sleep 0.05; done", ANA.pw_uid))
    until(lambda: "set\n" in bench.said())
    bench.machine.suspend(1, 1, 2)
    ended = bench.wait()
    assert (ended.outcome, ended.exit_code, ended.stop_reason) == ("yielded", 75, "suspend") and "saved\n" in bench.said()


def test_it_is_killed_with_all_its_processes(bench: UserBench) -> None:
    script = "setsid env -i sleep 1000 & (sleep 1000 &) ; echo set $!; sleep 1000"
    bench.machine.launch(bench.shell(script, ANA.pw_uid))
    until(lambda: "set " in bench.said())
    until(lambda: len(of_user(ANA.pw_uid, b"sleep")) == 3)
    there = of_user(ANA.pw_uid, b"sleep")
    bench.machine.kill(1, 1, 2)
    assert bench.wait().outcome == "lost"
    assert not any(alive(pid) for pid in there)


def test_a_process_that_has_changed_its_user_is_ended_with_its_job(bench: UserBench) -> None:
    """A job of root may do that."""
    script = f"""
import os, sys
if os.fork() == 0:
    os.setsid()
    os.setgid({ANA.pw_gid})
    os.setuid({ANA.pw_uid})
    os.execve({PYTHON!r}, [{PYTHON!r}, "-c", "import os, time; print('set', os.getpid(), flush=True); time.sleep(1000)"], {{}})
os.wait()
"""
    bench.machine.launch(bench.order(PYTHON, "-c", script))
    until(lambda: "set " in bench.said())
    pid = next(int(line.split()[1]) for line in bench.said().splitlines() if line.startswith("set "))
    assert Path(f"/proc/{pid}").stat().st_uid == ANA.pw_uid
    bench.machine.kill(1, 1, 2)
    assert bench.wait().outcome == "lost" and not alive(pid)


def of_user(uid: int, word: bytes) -> list[int]:
    """Return the processes of a user that run this program."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if entry.stat().st_uid == uid and words[0] == word:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_its_end_and_its_output_are_reported(bench: UserBench) -> None:
    bench.machine.launch(bench.shell("echo out; echo err >&2; exit 3", ANA.pw_uid))
    ended = bench.wait()
    assert (ended.outcome, ended.exit_code) == ("failed", 3) and "out\nerr\n" in bench.said()
    assert bench.log().stat().st_uid == 0 and bench.log().stat().st_mode & 0o77 == 0


def test_a_session_reports_saves_and_resumes(bench: UserBench) -> None:
    place = bench.folder_of(ANA.pw_uid) / "saved"
    env = {"ROTA_CHECKPOINT_DIR": str(place), "ROTA_JOB_ID": "1"}
    bench.machine.launch(bench.python(SAVES, ANA.pw_uid, env=env, progress="session"))
    until(lambda: bench.part().steps_done > 3, bench.said())
    assert bench.part().saves is True and bench.part().metrics
    bench.machine.suspend(1, 1, 2)
    ended = bench.wait()
    assert (ended.outcome, ended.exit_code) == ("yielded", 75) and ended.steps_saved == ended.steps_done > 3
    owners = {path.stat().st_uid for path in place.rglob("*")}
    assert owners == {ANA.pw_uid}, "the checkpoint is the user's"
    bench.machine.launch(bench.python(SAVES, ANA.pw_uid, env=env, progress="session", attempt=2))
    until(lambda: f"begins with {ended.steps_done:.0f}\n" in bench.said(), "it resumes")
    bench.machine.kill(1, 2, 2)
    bench.wait(1, 2)


def test_a_resize_reaches_it_and_is_answered(bench: UserBench) -> None:
    bench.machine.launch(bench.shell("sleep 1000", ANA.pw_uid))
    bench.pid()
    for sequence, size in ((2, 128), (3, 64)):
        assert bench.machine.resize(1, 1, sequence, size)
        until(lambda sequence=sequence: bench.part().start_sequence == sequence)
        written = bench.run_folder() / "size.json"
        assert json.loads(written.read_text()) == {"batch_size": size} and written.stat().st_uid == ANA.pw_uid
    bench.machine.kill(1, 1, 4)
    bench.wait()


def test_it_is_started_again_with_another_size(bench: UserBench) -> None:
    script = "trap 'exit 75' TERM; id -u; echo on $CUDA_VISIBLE_DEVICES; while :; do sleep 0.05; done"
    bench.machine.launch(bench.shell(script, ANA.pw_uid, env={"PATH": PATH, "CUDA_VISIBLE_DEVICES": "0"}))
    until(lambda: "on 0\n" in bench.said())
    assert bench.machine.resize(1, 1, 2, 64, env={"CUDA_VISIBLE_DEVICES": "0,1"}, gpus_text="n1:0-1")
    until(lambda: "on 0,1\n" in bench.said())
    assert bench.said().splitlines().count(str(ANA.pw_uid)) == 2
    bench.machine.kill(1, 1, 3)
    bench.wait()


def test_another_agent_finds_it_and_a_killed_supervisor_takes_it_along(bench: UserBench) -> None:
    script = f"setsid env -i {PYTHON} -c 'import time; time.sleep(1000)' & echo $! child; exec sleep 1000"
    bench.machine.launch(bench.shell(script, ANA.pw_uid))
    pid = bench.pid()
    until(lambda: " child\n" in bench.said())
    until(lambda: of_user(ANA.pw_uid, PYTHON.encode()), "it has left its session and its environment")
    left = of_user(ANA.pw_uid, PYTHON.encode())
    bench.open()
    assert bench.part().state == "running"
    os.kill(bench.supervisor(), 9)
    assert bench.wait().outcome == "lost"
    assert not alive(pid) and not any(alive(each) for each in left)


def test_its_folder_goes_with_it_and_links_in_it_are_not_followed(bench: UserBench) -> None:
    precious = bench.folder_of(ANA.pw_uid) / "precious"
    script = f'echo stays > {precious}; cd "$ROTA_RUN_DIR"; mkdir -p a/b; touch a/b/c; ln -s {bench.work} l; ln -s {precious} f'
    bench.machine.launch(bench.shell(script, ANA.pw_uid))
    assert bench.wait().outcome == "finished"
    place = bench.run_folder()
    assert (place / "a/b/c").exists() and place.stat().st_uid == ANA.pw_uid and place.stat().st_mode & 0o777 == 0o700
    assert JOBS.stat().st_uid == 0 and JOBS.stat().st_mode & 0o777 == 0o711
    inode = place.stat().st_ino
    bench.machine.forget(1, 1)

    def is_gone() -> bool:
        bench.open()
        return all(entry.lstat().st_ino != inode for entry in JOBS.iterdir())

    until(is_gone, "its folder is removed")
    assert precious.read_text() == "stays\n"
