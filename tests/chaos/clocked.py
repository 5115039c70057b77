"""Python with a wall clock that jumps: `clocked.py -m MODULE ...` runs the module, and so does every Python it starts.

The file that CHAOS_CLOCK names holds the seconds by which the wall clock is wrong. Other clocks are not touched, as when somebody
sets the time of a machine.
"""

import os
import runpy
import sys
import time

_right = time.time


def _wrong() -> float:
    try:
        file = os.open(os.environ["CHAOS_CLOCK"], os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return _right()
    try:
        return _right() + float(os.read(file, 100))
    finally:
        os.close(file)


def main() -> None:
    time.time = _wrong
    sys.executable = os.environ["CHAOS_PYTHON"]  # a script that comes here again
    module = sys.argv[sys.argv.index("-m") + 1]
    sys.argv[:] = sys.argv[sys.argv.index("-m") + 1 :]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
