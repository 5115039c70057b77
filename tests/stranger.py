"""A second Unix user, for tests of what others can do. Only root can act as one."""

import contextlib
import os
from collections.abc import Callable

import pytest

STRANGER = 65534
"""The user nobody."""
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


def as_stranger(act: Callable[[], object]) -> int:
    """Run this in a process of another user. Its exit code: 0 if it went through."""
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            os.setgroups([])
            os.setgid(STRANGER)
            os.setuid(STRANGER)
            act()
            code = 0
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
