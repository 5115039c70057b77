"""Starts the job's main process in a session of its own, so that it never outlives its supervisor. Other calls of the C library
are here too."""

import ctypes
import errno
import os
import signal
import socket
import subprocess
from pathlib import Path

from rota.agent.attempt_files import LaunchOrder
from rota.agent.constants import RUN_FOLDER
from rota.agent.job_folder import JobFolder
from rota.agent.processes import other_user

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_KEYCTL = {"x86_64": 250, "aarch64": 219}
"""Number of the system call, by machine."""
_KEYCTL_JOIN_SESSION_KEYRING = 1
NOT_FOUND, NOT_RUN = 127, 126
"""The exit codes a shell has for these."""

ASKED_TO_STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that end neither a supervisor nor the process beside it."""
HANDLED_SIGNALS = (signal.SIGCHLD, *ASKED_TO_STOP)

_LIBC = ctypes.CDLL(None, use_errno=True)


class NotStarted(Exception):
    """The job could not be started, in words, with the exit code a shell would give."""

    def __init__(self, problem: str, exit_code: int) -> None:
        super().__init__(problem)
        self.problem, self.exit_code = problem, exit_code


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def heed_signals() -> int:
    """Return a descriptor that can be read when a signal has come. The handlers do nothing; the job would inherit SIG_IGN."""
    bell, ring = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
    for number in HANDLED_SIGNALS:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return bell


def adopt_orphans() -> None:
    """Make processes whose parents are gone children of this process, so that it sees all of them and their exits."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def wake_when_parent_dies() -> None:
    """Continue this process, if it is stopped, when its parent dies."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)


def rename_word(old: str, new: str) -> None:
    """Replace a word of this process's command line, as others see it, by one of the same length."""
    numbers = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(numbers[45]), int(numbers[46])
    if len(old) != len(new) or not start < end:
        return
    words = ctypes.string_at(start, end - start).replace(b"\0" + old.encode() + b"\0", b"\0" + new.encode() + b"\0")
    ctypes.memmove(start, words, len(words))


def die_with(supervisor: int) -> None:
    """Kill this process when its parent dies. A change of user undoes this, so it comes after."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have died before the line above.
    if os.getppid() != supervisor:
        os.kill(os.getpid(), signal.SIGKILL)


def gain_no_rights() -> None:
    """Give this process a session keyring of its own, and keep it from gaining rights through programs such as sudo."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    number = _KEYCTL.get(os.uname().machine)
    if number is not None:  # a kernel that refuses this has no keyrings for the job either
        _LIBC.syscall(number, _KEYCTL_JOIN_SESSION_KEYRING, None, 0, 0, 0)


def open_folder(order: LaunchOrder, attempt: Path) -> tuple[JobFolder, socket.socket]:
    """Make the folder of a job, and return it with the socket for reports. `attempt`: the folder of the attempt. Raise NotStarted
    if the job is of another user, and this process can't start one of that user."""
    if other_user(order.uid) is not None:
        from rota.agent import start_as_user

        return start_as_user.open_folder(order, attempt)
    folder = JobFolder(attempt)
    return folder, folder.open()


def start(order: LaunchOrder, folder: JobFolder, *, log: int, job_lock: int) -> int:
    """Start the main process, which leads its session and its group, and return its number. `folder`: that of the job. Raise
    NotStarted."""
    if not order.argv:
        raise NotStarted("there is no command to run", NOT_RUN)
    if folder.uid is not None:
        from rota.agent import start_as_user

        return start_as_user.start(order, folder, log=log)
    supervisor = os.getpid()
    try:
        process = subprocess.Popen(
            order.argv,
            cwd=order.workdir,
            env={**order.env, RUN_FOLDER: str(folder.path.absolute())},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            close_fds=True,
            pass_fds=(job_lock,),
            preexec_fn=lambda: die_with(supervisor),
        )
    except OSError as error:
        why = os.strerror(error.errno).lower() if error.errno else str(error)
        if error.filename == order.workdir:
            raise NotStarted(f"the working directory {order.workdir} cannot be entered: {why}", NOT_RUN) from error
        missing = error.errno == errno.ENOENT
        raise NotStarted(f"the command {order.argv[0]!r} cannot be run: {why}", NOT_FOUND if missing else NOT_RUN) from error
    except (ValueError, subprocess.SubprocessError) as error:
        raise NotStarted(f"the command {order.argv[0]!r} cannot be run: {error}", NOT_RUN) from error
    process.returncode = 0  # the caller reaps it, so the object does not wait for it
    return process.pid
