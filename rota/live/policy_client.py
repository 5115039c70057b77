"""Calls of the policy in its worker process. An answer, a failure or a time-out comes back as an event; the scheduler never
waits."""

import contextlib
import json
import os
import queue
import select
import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import Any

from rota.live.given_beliefs import plain_tenants
from rota.live.views import decode_answer, encode_view
from rota.model.commands import CallPolicy
from rota.model.events import Allocated, External, PolicyFailed, PolicyTimedOut
from rota.model.tenants import Tenants

ANSWER_WITHIN_SECONDS = 60.0
MAX_MESSAGE_CHARS = 500


class PolicyClient:
    """Runs one worker at a time. It is started at once, so that the first call does not wait for it, and again whenever it is
    gone."""

    def __init__(
        self,
        command: Sequence[str],
        answer: Callable[[External], None],
        clock: Callable[[], float],
        within_seconds: float = ANSWER_WITHIN_SECONDS,
        policy: str | None = None,
        tenants: Tenants | None = None,
    ) -> None:
        """`tenants`: those of the scheduler, for a policy that serves tenants and names none of its own."""
        self._policy = policy
        self._first_line = "" if tenants is None else json.dumps({"tenants": plain_tenants(tenants)}) + "\n"
        """What a worker is sent before its first call."""
        self._sent_first_line = False
        self._command, self._clock, self._within = list(command), clock, within_seconds
        self.answer = answer
        """Function that gets the answers."""
        self._guard = threading.Lock()
        self._open: tuple[int, str] | None = None
        """The call that has no answer yet."""
        self._abandoned = False
        self._questions: queue.SimpleQueue[tuple[int, str] | None] = queue.SimpleQueue()
        self._worker: subprocess.Popen[bytes] | None = None
        self._rest = b""
        self._thread = threading.Thread(target=self._run, name="policy client", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        worker = self._worker
        return worker.pid if worker is not None and worker.poll() is None else None

    def ask(self, command: CallPolicy) -> None:
        """Call the policy. The view is read at once; the rest happens in a thread."""
        question = json.dumps({"ticket": command.ticket, "view": encode_view(command.view)}, separators=(",", ":"))
        self._put((command.ticket, question))

    def take_over(self, question: tuple[int, str] | None) -> None:
        """Answer a call that was open under another policy. The memory of that policy is dropped."""
        if question is not None:
            plain = json.loads(question[1])
            plain["view"]["memory"] = None
            self._put((question[0], json.dumps(plain, separators=(",", ":"))))

    def _put(self, question: tuple[int, str]) -> None:
        self._open = question
        self._questions.put(question)

    def abandon(self) -> tuple[int, str] | None:
        """Close without further answers. Return the open call, if there is one."""
        with self._guard:
            self._abandoned, left = True, self._open
        self.close()
        return left

    def close(self) -> None:
        self._questions.put(None)
        worker = self._worker
        if worker is not None:
            worker.kill()  # it may be in the middle of a calculation, and has nothing worth keeping
        self._thread.join()

    def _run(self) -> None:
        self._worker = self._start()
        while (item := self._questions.get()) is not None:
            ticket, question = item
            try:
                event = self._ask(ticket, question)
            except OSError as problem:
                self._end()
                event = PolicyFailed(ticket, self._clock(), f"its worker died ({problem.strerror})")
            with self._guard:
                if not self._abandoned:
                    self._open = None
                    self.answer(event)
        self._end()

    def _ask(self, ticket: int, question: str) -> External:
        worker = self._worker
        if worker is None or worker.poll() is not None:
            self._end()
            worker = self._worker = self._start()
        assert worker.stdin is not None
        first, self._sent_first_line = "" if self._sent_first_line else self._first_line, True
        worker.stdin.write(f"{first}{question}\n".encode())
        worker.stdin.flush()
        line = self._line(worker)
        if line is None:
            self._end()
            return PolicyTimedOut(ticket, self._clock())
        if not line:
            self._end()
            return PolicyFailed(ticket, self._clock(), f"its worker died (exit code {worker.returncode})")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            return PolicyFailed(ticket, self._clock(), str(answer["error"])[:MAX_MESSAGE_CHARS])
        return Allocated(ticket, decode_answer(answer), self._clock(), self._policy)

    def _line(self, worker: "subprocess.Popen[bytes]") -> bytes | None:
        """Return the next line of the worker; empty if it died, None after the time limit."""
        assert worker.stdout is not None
        until, found = self._clock() + self._within, self._rest
        while b"\n" not in found:
            ready, _, _ = select.select([worker.stdout], [], [], max(until - self._clock(), 0.0))
            if not ready:
                return None
            piece = os.read(worker.stdout.fileno(), 1 << 16)
            if not piece:
                return b""
            found += piece
        line, _, self._rest = found.partition(b"\n")
        return line

    def _start(self) -> "subprocess.Popen[bytes]":
        self._rest, self._sent_first_line = b"", False
        return subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _end(self) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(timeout=0.5)  # a worker that is dying reports why
        worker.kill()
        worker.wait()
        for pipe in (worker.stdin, worker.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
