"""Starts the main process of another user's job, in a session of its own.

The new process sets the limits of the user, and drops all that is root's before it touches a path of the user: its groups and
number, its priority, its keyring.
It enters the working directory and looks for the command as that user, so a folder that the user cannot enter stays closed. It
can gain no rights afterwards (`no_new_privs`), not with sudo either. While it still has a copy of this process's memory it cannot
be traced: the kernel allows that only after the command was started.

The user may stop a process of theirs at any moment, so this waits for a limited time, unlike `subprocess`.
"""

import contextlib
import errno
import fcntl
import json
import os
import resource
import select
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from rota.agent import child
from rota.agent.attempt_files import LaunchOrder
from rota.agent.child import NOT_FOUND, NOT_RUN, NotStarted
from rota.agent.constants import ATTEMPT_ID, RUN_FOLDER
from rota.agent.job_cgroup import enter_group, make_group, remove_group
from rota.agent.job_folder import JobFolder
from rota.agent.job_user import CLUSTER_NODE, JobUser, UnknownUser, become, find_user
from rota.agent.others_job_folder import JOBS, OthersJobFolder
from rota.agent.processes import END_SECONDS, MARK, boot_s, kill_number
from rota.agent.user_limits import UserLimits, read_limits

UMASK = 0o022
START_SECONDS = 30.0
"""Time limit for a new process to start its command, in seconds."""
_USER, _FOLDER, _COMMAND = "user", "folder", "command"
"""Steps that may fail."""
_MAX_REPORT_BYTES = 4096
_SEALS = 0xF
"""F_SEAL_SEAL, SHRINK, GROW and WRITE: nothing can be written to the mark."""
_F_ADD_SEALS = 1033


class _NewProcess(NamedTuple):
    """What the new process needs. All of it is prepared before the fork."""

    user: JobUser
    argv: Sequence[str]
    env: Mapping[str, str]
    workdir: str
    descriptors: tuple[int, int, int]
    """Standard input, standard output, and the pipe for a report of what failed."""
    mark: int
    supervisor: int
    group: Path | None
    """Control group of the job; None if it has none."""
    limits: UserLimits
    most_files: int
    """Number of descriptors that this process may have, before the limits of the user."""


def user_of(order: LaunchOrder) -> JobUser:
    """Return the user of an order that names another one than this process has. Raise NotStarted."""
    assert order.uid is not None
    if os.geteuid() != 0:
        why = f"the agent on node {os.uname().nodename} runs as user {os.geteuid()}"
        raise NotStarted(f"{why}, and only root can start a job of user {order.uid}", NOT_RUN)
    try:
        return find_user(order.uid, must_have_name=bool(order.env.get(CLUSTER_NODE)))
    except UnknownUser as error:
        raise NotStarted(str(error), NOT_RUN) from None


def open_folder(order: LaunchOrder, attempt: Path) -> tuple[OthersJobFolder, socket.socket]:
    """Make the folder of another user's job, and return it with the socket for reports. Raise NotStarted."""
    folder = OthersJobFolder(attempt, user_of(order))
    try:
        return folder, folder.open()
    except OSError as error:
        why = error.strerror or str(error)
        raise NotStarted(f"{JOBS}, which holds the folders of other users' jobs, cannot be used: {why}", NOT_RUN) from error


def start(order: LaunchOrder, folder: JobFolder, *, log: int) -> int:
    """Start the main process and return its number. `log`: pipe for its output. Raise NotStarted."""
    assert isinstance(folder, OthersJobFolder)
    user = folder.user
    os.fchown(log, user.uid, user.gid)  # so that the job may open /dev/stdout
    with contextlib.ExitStack() as opened:
        null, mark = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), _make_mark(order.env.get(ATTEMPT_ID, ""))
        report, reports = os.pipe2(os.O_CLOEXEC)
        for descriptor in (null, mark, report):
            opened.callback(os.close, descriptor)
        group = make_group(order.env.get(ATTEMPT_ID, ""))
        env = {**user.variables, **order.env, RUN_FOLDER: str(folder.path)}
        limits, most_files = read_limits(user), os.sysconf("SC_OPEN_MAX")
        folder.limits_problem = limits.problem
        wanted = _NewProcess(
            user, list(order.argv), env, order.workdir, (null, log, reports), mark, os.getpid(), group, limits, most_files
        )
        pid = os.fork()
        if pid == 0:
            _run(wanted)
        os.close(reports)
        failure = _result(pid, report)
        if failure:
            _wait_for_end(pid)
            remove_group(order.env.get(ATTEMPT_ID, ""))
        _check(order, user, failure)
    return pid


def _make_mark(life: str) -> int:
    """Return a file in memory whose name marks the processes that have it open. No process can write to it."""
    mark = os.memfd_create(MARK + life, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    fcntl.fcntl(mark, _F_ADD_SEALS, _SEALS)
    return mark


# The new process.


def _run(wanted: _NewProcess) -> NoReturn:
    """Become the user and run the command. What fails goes to the pipe for reports."""
    step = _USER
    report = wanted.descriptors[2]
    try:
        os.setsid()
        if wanted.group is not None:
            with contextlib.suppress(OSError):
                enter_group(wanted.group)
        _drop_settings()
        wanted.limits.apply(late=False)
        become(wanted.user)
        child.gain_no_rights()
        child.die_with(wanted.supervisor)
        step = _FOLDER
        os.chdir(wanted.workdir)
        step = _COMMAND
        _keep_only(wanted)
        wanted.limits.apply(late=True)
        os.execvpe(wanted.argv[0], list(wanted.argv), dict(wanted.env))
    except BaseException as error:
        number = error.errno if isinstance(error, OSError) else None
        text = json.dumps([step, number, str(error)[: _MAX_REPORT_BYTES // 16]])
        with contextlib.suppress(OSError):
            os.write(report, text.encode())
    finally:
        os._exit(NOT_RUN)


def _drop_settings() -> None:
    """Reset what a process inherits and an operator may have set for the scheduler alone."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.umask(UMASK)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if os.getpriority(os.PRIO_PROCESS, 0) < 0:
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    with contextlib.suppress(OSError, ValueError):
        protection = Path("/proc/self/oom_score_adj")
        if int(protection.read_text()) < 0:
            protection.write_text("0")


def _keep_only(wanted: _NewProcess) -> None:
    """Close all descriptors but the job's own. The pipe for reports closes when the command starts."""
    null, log, report = wanted.descriptors
    for to, descriptor in enumerate((null, log, log)):
        os.dup2(descriptor, to, inheritable=True)
    os.set_inheritable(wanted.mark, True)
    first = 3
    for descriptor in sorted((wanted.mark, report)):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, wanted.most_files)


# What came of it.


def _result(pid: int, report: int) -> bytes:
    """Return what failed; nothing if the command was started, or was killed before."""
    deadline = boot_s() + START_SECONDS
    while (left := deadline - boot_s()) > 0:
        if select.select([report], [], [], left)[0]:
            return os.read(report, _MAX_REPORT_BYTES)
    kill_number(pid)
    return json.dumps([_COMMAND, None, f"it was not started within {START_SECONDS:.0f} s"]).encode()


def _wait_for_end(pid: int) -> None:
    """Wait until a process that ends has ended, but not for long: a disk may hold it up."""
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)
        try:
            select.select([handle], [], [], END_SECONDS)
        finally:
            os.close(handle)


def _check(order: LaunchOrder, user: JobUser, failure: bytes) -> None:
    """Raise NotStarted if something failed."""
    if not failure:
        return
    step, number, text = json.loads(failure)
    why = os.strerror(number).lower() if number else text
    host = os.uname().nodename
    if step == _USER:
        unknown = number == errno.EINVAL
        raise NotStarted(
            f"{user} does not exist on node {host}" if unknown else f"{user} cannot run jobs on {host}: {why}", NOT_RUN
        )
    if step == _FOLDER:
        raise NotStarted(f"{user} cannot enter the working directory {order.workdir}: {why}", NOT_RUN)
    raise NotStarted(
        f"the command {order.argv[0]!r} cannot be run by {user}: {why}", NOT_FOUND if number == errno.ENOENT else NOT_RUN
    )
