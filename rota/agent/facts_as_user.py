"""What the files of another user's job show about parking, found by a process of that user: `python -m rota.agent.facts_as_user`.

The job's Python, its packages and the libraries beside them belong to the user, and one of the libraries is loaded to see whether
it can be. Root must not do that. The process begins as root, because only root may be able to read Rota, and then becomes the
user. It reads a question from standard input and writes the facts to standard output, both as JSON.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from rota.agent.attempt_files import LaunchOrder
from rota.agent.job_user import CLUSTER_NODE, UnknownUser, become, find_user
from rota.agent.processes import boot_s
from rota.park.facts import job_facts
from rota.park.park_method import ParkingFacts

SECONDS = 5.0
"""Time limit for the process, in seconds. Its user can stop it."""
PAUSE_SECONDS = 600.0
"""Time for which no process is started for a user whose last one was ended, in seconds. The agent waits for each of them."""
_ended_s: dict[int, float] = {}
"""When the process of a user was last ended, by user."""
_PACKAGES = str(Path(__file__).resolve().parents[2])


def facts_as_user(order: LaunchOrder, uid: int, *, real_gpus: bool) -> ParkingFacts:
    """Return the facts of an order for another user, without those about the driver. Raise OSError if they can't be found."""
    if os.geteuid() != 0:
        raise PermissionError("only root can start one")
    if boot_s() < _ended_s.get(uid, -PAUSE_SECONDS) + PAUSE_SECONDS:
        raise OSError(
            f"the last one took more than {SECONDS:.0f} s, and the next is tried {PAUSE_SECONDS / 60:.0f} minutes later"
        )
    asked = {"uid": uid, "argv": list(order.argv), "env": dict(order.env), "workdir": order.workdir}
    asked |= {"wanted": bool(order.may_park), "gpus": order.most_gpus, "real_gpus": real_gpus}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "rota.agent.facts_as_user"],
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=True,
            cwd="/",
            env={"PATH": os.defpath, "PYTHONPATH": _PACKAGES},
        )
        return _checked(json.loads(done.stdout))
    except subprocess.TimeoutExpired as error:
        _ended_s[uid] = boot_s()
        raise OSError(f"it took more than {SECONDS:.0f} s") from error
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines()
        raise OSError(lines[-1] if lines else f"exit code {error.returncode}") from error
    except (ValueError, TypeError) as error:
        raise OSError(f"it wrote no facts: {error}") from error


def _checked(plain: dict[str, Any]) -> ParkingFacts:
    """Return facts of the right types. Raise TypeError."""
    plain["library_path"] = tuple(plain["library_path"])
    facts = ParkingFacts(**plain)
    for each in fields(facts):
        value, usual = getattr(facts, each.name), each.default
        kinds = (int, type(None)) if usual is None else (int, float) if each.name == "gpus" else (type(usual),)
        if not isinstance(value, kinds):
            raise TypeError(f"{each.name} is of type {type(value).__name__}")
    if not all(isinstance(folder, str) for folder in facts.library_path):
        raise TypeError("library_path has something else than texts")
    return facts


def main() -> int:
    asked = json.loads(sys.stdin.read())
    try:
        become(find_user(asked.pop("uid"), must_have_name=bool(asked["env"].get(CLUSTER_NODE))))
    except UnknownUser as error:
        sys.exit(str(error))
    sys.stdout.write(json.dumps(asdict(job_facts(**asked))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
