"""Becomes the command of a health check, as a program of its own, which the kernel kills when the agent is killed.

The agent has many threads, so no code of ours may run between its fork and the start of another program.
"""

import os
import sys

from rota.agent.child import die_with


def main(agent: str, *argv: str) -> None:
    """Become the command `argv`, as a child of the process `agent`."""
    die_with(int(agent))
    try:
        os.execvp(argv[0], argv)
    except (OSError, ValueError) as error:
        why = os.strerror(error.errno).lower() if isinstance(error, OSError) and error.errno else str(error)
        sys.exit(f"the command {argv[0]!r} cannot be run: {why}")


if __name__ == "__main__":
    main(*sys.argv[1:])
