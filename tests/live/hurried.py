"""Rota with shorter waits: `hurried.py -m MODULE ...` runs the module. With the real ones a machine that is gone would be waited
for through a minute of grace and half a minute of slack, after its leases are over.

Nothing else is different. What is waited for is the same, in the same order.
"""

import runpy
import sys

from rota.core.fold import setbacks
from rota.server import serve

GRACE_SECONDS = 5.0
"""What a job gets for saving its state when its lease is over."""
SLACK_SECONDS = 5.0
"""How much later its processes are surely gone."""
SILENT_SECONDS = 20.0
"""A node that was not heard of for so long is unreachable."""


PAUSE_SECONDS = 0.2
"""The first pause after an attempt that failed in a way in which the next is likely to fail too."""


def main() -> None:
    setbacks.FIRST_PAUSE_SECONDS = PAUSE_SECONDS
    serve.LEASE_SLACK_SECONDS, serve.NODE_TIMEOUT_SECONDS = SLACK_SECONDS, SILENT_SECONDS
    defaults = serve.ServeOptions.__init__.__kwdefaults__
    assert "lease_grace_seconds" in defaults
    defaults["lease_grace_seconds"] = GRACE_SECONDS
    module = sys.argv[sys.argv.index("-m") + 1]
    sys.argv[:] = sys.argv[sys.argv.index("-m") + 1 :]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
