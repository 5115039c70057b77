"""Python as on another machine: `other_machine.py -m MODULE ...` runs the module with another boot and other clocks.

OTHER_BOOT_SECONDS is by how much its clock that counts from boot differs, and OTHER_WALL_SECONDS by how much its wall clock is
wrong. Only this process has them: what it starts on nodes of a cluster has the clocks of those.
"""

import os
import runpy
import sys
import time

import rota.agent.processes as processes


def main() -> None:
    boot_s, wall_s = processes.boot_s, time.time
    boot_ahead, wall_ahead = float(os.environ["OTHER_BOOT_SECONDS"]), float(os.environ["OTHER_WALL_SECONDS"])
    processes.boot_id = lambda: "00000000-0000-0000-0000-0000000000aa"
    processes.boot_s = lambda: boot_s() + boot_ahead
    time.time = lambda: wall_s() + wall_ahead
    module = sys.argv[sys.argv.index("-m") + 1]
    sys.argv[:] = sys.argv[sys.argv.index("-m") + 1 :]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
