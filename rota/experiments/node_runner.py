"""What another machine does with a cell that it receives as text: a worker process calculates it, with copies of its inputs."""

import json
from collections.abc import Mapping
from typing import Any

from rota.errors import RotaError
from rota.experiments.copies import Fetch, InputCopies
from rota.experiments.worker_pool import Worker, WorkerReply


class NodeRunner:
    """One worker process and its copies, kept from one cell to the next. It serves the cells of one run."""

    def __init__(self) -> None:
        self._copies: InputCopies | None = None
        self._worker: Worker | None = None

    def run(self, text: str, fetch: Fetch) -> WorkerReply:
        """Return the answer to a cell that `encode_cell` wrote."""
        work = json.loads(text)
        cwd, digests = work.pop("cwd"), work.pop("inputs")
        try:
            if self._copies is None:
                self._copies = InputCopies(cwd)
            copies = self._copies.put(digests, fetch)
        except RotaError as problem:
            return {"error": problem.message, "hint": problem.hint}
        except OSError as problem:
            why = problem.strerror or str(problem)
            return {"error": f"Its files cannot be written on the node: {why}.", "hint": "free some space there"}
        return self._ask({**work, "inputs": {"cwd": cwd, "copies": copies}}, self._copies)

    def close(self) -> None:
        if self._worker is not None:
            self._worker.end()
        if self._copies is not None:
            self._copies.close()
        self._worker = self._copies = None

    def _ask(self, work: dict[str, Any], copies: InputCopies) -> WorkerReply:
        if self._worker is None:
            self._worker = Worker(("rota.experiments.worker", str(copies.root)), cwd=copies.place, keep=(copies.lock,))
        answer = self._worker.ask(work)
        if answer is not None:
            return answer
        code = self._worker.end()
        self._worker = None
        return {"error": f"its worker died (exit code {code}).", "hint": "nodes with more memory, if it is short", "died": True}


def encode_cell(work: Mapping[str, Any], versions: Mapping[str, str], cwd: str, inputs: Mapping[str, str]) -> str:
    """Return a cell as text. `inputs`: digest of each input file, by the name that the study gives it."""
    return json.dumps({**work, "versions": versions, "cwd": cwd, "inputs": inputs})
