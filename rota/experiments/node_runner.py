"""What another machine does with a cell that is sent to it as text: a worker process calculates it, with copies of its files."""

import json
from typing import Any

from rota.errors import RotaError
from rota.experiments.copies import Copies, Fetch
from rota.experiments.worker_pool import Worker, WorkerReply


class NodeRunner:
    """One worker process and its copies, kept from one cell to the next. It serves the cells of one sweep."""

    def __init__(self) -> None:
        self._copies: Copies | None = None
        self._worker: Worker | None = None

    def run(self, text: str, fetch: Fetch) -> WorkerReply:
        """The answer to a cell as `packed` wrote it."""
        sent = json.loads(text)
        try:
            if self._copies is None:
                self._copies = Copies(sent["cwd"])
            self._copies.put(sent["files"], fetch)
        except RotaError as problem:
            return {"error": problem.message, "hint": problem.hint}
        except OSError as problem:
            said = problem.strerror or str(problem)
            return {"error": f"Its files cannot be written on the node: {said}.", "hint": "free some space there"}
        work = {"versions": sent["versions"], "study": self._copies.rooted(sent["study"])}
        found: WorkerReply = json.loads(self._copies.unrooted(json.dumps(self._ask(work, self._copies))))
        return found

    def close(self) -> None:
        if self._worker is not None:
            self._worker.end()
        if self._copies is not None:
            self._copies.close()
        self._worker = self._copies = None

    def _ask(self, work: dict[str, Any], copies: Copies) -> WorkerReply:
        if self._worker is None:
            self._worker = Worker(("rota.experiments.remote_worker", str(copies.root)), cwd=copies.place, keep=(copies.lock,))
        answer = self._worker.ask(work)
        if answer is not None:
            return answer
        code = self._worker.end()
        self._worker = None
        return {"error": f"its worker died (exit code {code}).", "hint": "nodes with more memory, if it is short", "died": True}


def encode_cell(study: dict[str, Any], versions: dict[str, str], cwd: str, files: dict[str, str]) -> str:
    """A cell as text. `files`: path, as the study names it, to digest."""
    return json.dumps({"study": study, "versions": versions, "cwd": cwd, "files": files})
