"""The process that runs a policy. It reads one policy call per line as JSON, and writes one answer per line. A line with the
scheduler's tenants may come first, and has no answer.

A policy may be slow, leak memory, crash or print without harm to the scheduler.
"""

import json
import os
import signal
import sys
from typing import Any

from rota.compose.registry import make_policy
from rota.errors import RotaError
from rota.live.views import decode_view, encode_answer, memory_codec
from rota.model.codec import Plain
from rota.model.policy import Policy


def _serving(policy: Policy, plain: Plain) -> Policy:
    """Return the policy with the scheduler's tenants, if it serves tenants and names none of its own."""
    from rota.compose.policy_tenants import with_tenants  # here, because most schedulers have no tenants
    from rota.live.given_beliefs import read_plain_tenants

    return with_tenants(policy, read_plain_tenants(plain))


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the daemon, which ends this process when it exits
    answers = os.dup(1)
    os.dup2(2, 1)  # output of a policy goes to the log, not into the answers
    try:
        policy = make_policy(sys.argv[1])
    except RotaError as problem:
        sys.exit(problem.message)
    memories = memory_codec(policy)
    for line in sys.stdin:
        if not line.endswith("\n"):
            return  # the scheduler was killed during its call
        question = json.loads(line)
        if "tenants" in question:
            policy = _serving(policy, question["tenants"])
            continue
        answer: dict[str, Any]
        try:
            before = question["view"]["memory"]
            memory = None if before is None else memories.decode(json.loads(before))
            answer = encode_answer(policy.allocate(decode_view(question["view"], memory)), memories)
        except RotaError as problem:
            answer = {"error": problem.message}
        except Exception as problem:
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        text = (json.dumps({"ticket": question["ticket"], **answer}) + "\n").encode()
        try:
            while text:
                text = text[os.write(answers, text) :]
        except BrokenPipeError:
            return  # the scheduler was killed before it received the answer


if __name__ == "__main__":
    main()
