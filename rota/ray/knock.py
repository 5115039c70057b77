"""Ask the head of a Ray cluster for its name, and print what became of it: accepted, refused, or the problem in one line.

    RAY_AUTH_MODE=disabled python -m rota.ray.knock HOST:PORT

This is a program of its own because Ray reads its settings once for each process: whether a token is sent is settled by then.
"""

import sys

ACCEPTED, REFUSED = "accepted", "refused"


def knock(address: str) -> str:
    from ray._private.authentication.authentication_token_setup import (
        ensure_token_if_auth_enabled,
        maybe_enable_token_auth_if_token_available,
    )
    from ray._raylet import GcsClient
    from ray.exceptions import AuthenticationError

    try:
        maybe_enable_token_auth_if_token_available(warn_if_disabled=False)  # as ray.init does
        ensure_token_if_auth_enabled(None, create_token_if_missing=False)
        GcsClient(address=address)
    except AuthenticationError:
        return REFUSED
    return ACCEPTED


if __name__ == "__main__":
    try:
        print(knock(sys.argv[1]))
    except Exception as problem:
        print(f"{type(problem).__name__}: {(str(problem).splitlines() or [''])[0]}")
