"""Starting the job's main process, in a session of its own, so that it never outlives its supervisor."""

import ctypes
import errno
import os
import signal
import subprocess
from collections.abc import Callable

from rota.agent.constants import RUN_FOLDER
from rota.agent.records import WrittenOrder

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
NOT_FOUND, NOT_RUN = 127, 126
"""The exit codes a shell has for these."""

_LIBC = ctypes.CDLL(None, use_errno=True)


class NotStarted(Exception):
    """The job could not be started, in words, with the exit code a shell would give."""

    def __init__(self, problem: str, exit_code: int) -> None:
        super().__init__(problem)
        self.problem, self.exit_code = problem, exit_code


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def adopt_orphans() -> None:
    """Processes whose parents are gone become children of this one: none gets out of sight, and their exits are told."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _die_with(supervisor: int) -> Callable[[], None]:
    def in_the_child() -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # It may have died before the line above.
        if os.getppid() != supervisor:
            os.kill(os.getpid(), signal.SIGKILL)

    return in_the_child


def start(order: WrittenOrder, *, log: int, job_lock: int, folder: str) -> "subprocess.Popen[bytes]":
    """The main process; it leads its session and its group. `folder` is its own, for this incarnation. Raises NotStarted."""
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
