"""Worker processes that do one piece of work at a time. They read one JSON object per line and answer with one per line.

Both ends are here. A `Worker` is one such process, a `WorkerPool` starts several and distributes work among them, and `serve` is
the main loop of a worker. A worker whose parent is gone exits at its next progress report at the latest.
"""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rota.errors import DEBUG, RotaError

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""Variables that limit maths libraries to one thread. Every worker has one core."""

MAX_DEATHS = 3
"""Number of workers in a row that may die before the pool stops."""

WorkerReply = dict[str, Any]
"""A worker's answer; it has `error` and `hint` if there is no result."""

ReportProgress = Callable[[int, int, float], None]
"""Function that reports progress: done, total and the simulated time in seconds. It exits the process if the parent is gone."""


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Worker:
    """One worker process."""

    def __init__(self, command: Sequence[str], *, cwd: Path | None = None, keep: Sequence[int] = ()) -> None:
        """`command`: module of the worker and its arguments; `keep`: file descriptors that the worker inherits."""
        words = [sys.executable, "-P", "-m", *command]
        environment = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=cwd, pass_fds=keep
        )

    def ask(self, work: Mapping[str, Any]) -> WorkerReply | None:
        """Return the answer of the worker; None if it died."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps(dict(work)) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            return None
        if not line.endswith("\n"):
            return None
        try:
            answer: WorkerReply = json.loads(line)
        except ValueError:
            return {"error": f"its worker answered {line[:60]!r}.", "hint": "report this"}
        return answer

    def end(self) -> int:
        """Close the input of the worker, so that it exits, and return its exit code."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(OSError):  # it may be gone already
            process.stdin.close()
        code = process.wait()
        process.stdout.close()
        return code

    def terminate(self) -> None:
        self._process.terminate()


class WorkerPool:
    """Worker processes, each fed by a thread that only waits for it."""

    def __init__(
        self,
        command: Sequence[str],
        work: Sequence[Mapping[str, Any]],
        workers: int,
        received: Callable[[int, WorkerReply], None],
    ) -> None:
        """`command`: module of the worker and its arguments. `received` is called with the number of each piece of work and its
        answer, from the thread of its worker."""
        self._command, self._work, self._workers, self._received = list(command), work, workers, received
        self._todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(len(work)):
            self._todo.put(number)
        self._lock = threading.Lock()
        self._running: list[Worker] = []
        self._stopping = False
        self._deaths = 0

    def run(self) -> None:
        threads = [threading.Thread(target=self._feed) for _ in range(self._workers)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            self._stop()
            for thread in threads:
                thread.join()
            raise

    def _feed(self) -> None:
        worker: Worker | None = None
        while not self._stopping:
            try:
                number = self._todo.get_nowait()
            except queue.Empty:
                break
            if worker is None:
                worker = self._start()
            answer = worker.ask(self._work[number])
            if self._stopping:
                break
            died = answer is None
            if answer is None:
                code = self._end(worker)
                worker = None
                answer = {"error": f"its worker died (exit code {code}).", "hint": "fewer --workers, if memory is short"}
            with self._lock:
                self._deaths = self._deaths + 1 if died else 0
                if self._deaths >= MAX_DEATHS:
                    self._stopping = True  # the cause is not the work
            self._received(number, answer)
        if worker is not None:
            self._end(worker)

    def _start(self) -> Worker:
        worker = Worker(self._command)
        with self._lock:
            self._running.append(worker)
        return worker

    def _end(self, worker: Worker) -> int:
        code = worker.end()
        with self._lock:
            self._running.remove(worker)
        return code

    def _stop(self) -> None:
        with self._lock:
            self._stopping = True
            for worker in self._running:
                worker.terminate()


def serve(do: Callable[[dict[str, Any], ReportProgress], WorkerReply]) -> None:
    """Do each piece of work on standard input until it is closed. `do` is called with the work and with a function that it must
    call regularly."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and then ends the workers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a policy may print; that must not mix with the answers
    parent = os.getppid()

    def alive(done: int, total: int, now_s: float) -> None:
        if os.getppid() != parent:
            os._exit(1)

    for line in sys.stdin:
        try:
            answer = do(json.loads(line), alive)
        except RotaError as problem:
            if os.environ.get(DEBUG):
                from rota.compose.policy_faults import fault_traceback  # imports half of Rota, which the parent does not need

                sys.stderr.write(fault_traceback(problem))
            answer = {"error": problem.message, "hint": problem.hint}
        except BaseException as problem:  # a policy may raise anything, even SystemExit, and other work must continue
            answer = {"error": f"{type(problem).__name__}: {problem}.", "hint": "rota policy check, with this policy"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
