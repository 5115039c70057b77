"""Ask the head of a Ray cluster for its name, and print the outcome: accepted, refused, or the problem in one line.

    RAY_AUTH_MODE=disabled python -m rota.ray.knock HOST:PORT

This is a separate program because Ray reads its settings once per process, among them whether it sends a token.
"""

import importlib
import sys
from typing import Any

ACCEPTED, REFUSED = "accepted", "refused"


def knock(address: str) -> str:
    setup: Any = importlib.import_module("ray._private.authentication.authentication_token_setup")
    core: Any = importlib.import_module("ray._raylet")
    from ray.exceptions import AuthenticationError

    try:
        setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)  # as ray.init does
        setup.ensure_token_if_auth_enabled(None, create_token_if_missing=False)
        core.GcsClient(address=address)
    except AuthenticationError:
        return REFUSED
    return ACCEPTED


if __name__ == "__main__":
    try:
        said = knock(sys.argv[1])
    except Exception as problem:
        said = f"{type(problem).__name__}: {(str(problem).splitlines() or [''])[0]}"
    sys.stdout.write(f"{said}\n")
