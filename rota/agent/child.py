"""Starts the job's main process in a session of its own, so that it never outlives its supervisor. Other calls of the C library
are here too."""

import ctypes
import errno
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from rota.agent.attempt_files import LaunchOrder
from rota.agent.constants import RUN_FOLDER

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
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


def _die_with(supervisor: int) -> Callable[[], None]:
    def in_the_child() -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # It may have died before the line above.
        if os.getppid() != supervisor:
            os.kill(os.getpid(), signal.SIGKILL)

    return in_the_child


def start(order: LaunchOrder, *, log: int, job_lock: int, folder: str) -> "subprocess.Popen[bytes]":
    """Start the main process, which leads its session and its group. `folder` belongs to this attempt. Raise NotStarted."""
    if not order.argv:
        raise NotStarted("there is no command to run", NOT_RUN)
    try:
        return subprocess.Popen(
            order.argv,
            cwd=order.workdir,
            env={**order.env, RUN_FOLDER: folder},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            close_fds=True,
            pass_fds=(job_lock,),
            preexec_fn=_die_with(os.getpid()),
        )
    except OSError as error:
        why = os.strerror(error.errno).lower() if error.errno else str(error)
        if error.filename == order.workdir:
            raise NotStarted(f"the working directory {order.workdir} cannot be entered: {why}", NOT_RUN) from error
        missing = error.errno == errno.ENOENT
        raise NotStarted(f"the command {order.argv[0]!r} cannot be run: {why}", NOT_FOUND if missing else NOT_RUN) from error
    except (ValueError, subprocess.SubprocessError) as error:
        raise NotStarted(f"the command {order.argv[0]!r} cannot be run: {error}", NOT_RUN) from error
