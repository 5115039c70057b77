"""Worker processes that take one piece of work at a time: a JSON object per line comes in, an answer per line goes out.

Both ends are here. A `Worker` is one such process; `Crew` starts several, feeds them and hears their answers; `serve` is what a
worker does. When its parent is gone a worker ends, at the latest at the next report.
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
"""Every worker has one core: a maths library that starts threads of its own would only fight the others."""

MOST_DEATHS = 3
"""So many workers may die in a row; after that the crew stops."""

WorkerReply = dict[str, Any]
"""What a worker says about its work; `error` and `hint` where there is no result."""

Alive = Callable[[int, int, float], None]
"""A report of progress to a parent that may be gone."""


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Worker:
    """One worker process, and how to talk to it."""

    def __init__(self, command: Sequence[str], *, cwd: Path | None = None, keep: Sequence[int] = ()) -> None:
        """`command` is the module of the worker and its arguments; `keep`: open files that it keeps open."""
        words = [sys.executable, "-P", "-m", *command]
        environment = {**os.environ, **dict.fromkeys(ONE_THREAD, "1")}
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=cwd, pass_fds=keep
        )

    def ask(self, work: Mapping[str, Any]) -> WorkerReply | None:
        """The worker's answer; None: it died."""
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
            return {"error": f"its worker said {line[:60]!r}.", "hint": "report this"}
        return answer

    def end(self) -> int:
        """No more work: a worker ends when its input does. Returns its exit code."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        with contextlib.suppress(OSError):  # it may be gone already
            process.stdin.close()
        code = process.wait()
        process.stdout.close()
        return code

    def terminate(self) -> None:
        self._process.terminate()


class Crew:
    """Worker processes, each fed by a thread of ours that does nothing but wait for it."""

    def __init__(
        self, command: Sequence[str], work: Sequence[Mapping[str, Any]], workers: int, heard: Callable[[int, WorkerReply], None]
    ) -> None:
        """`command` is the module of the worker and its arguments. `heard` gets the number of each piece of work and the answer
        to it, one at a time and in the order they come."""
        self._command, self._work, self._workers, self._heard = list(command), work, workers, heard
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
                if self._deaths >= MOST_DEATHS:
                    self._stopping = True  # whatever it is, it is not the work
                self._heard(number, answer)
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


def serve(do: Callable[[dict[str, Any], Alive], WorkerReply]) -> None:
    """Do what comes in, until nothing comes any more. `do` gets a piece of work and a function that it calls now and then."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends us
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a policy prints goes to standard error, not into the answers
    parent = os.getppid()

    def alive(done: int, total: int, now_s: float) -> None:
        if os.getppid() != parent:
            os._exit(1)

    for line in sys.stdin:
        try:
            answer = do(json.loads(line), alive)
        except RotaError as problem:
            if os.environ.get(DEBUG):
                from rota.compose.policy_faults import (
                    fault_traceback,  # it imports half of Rota, which the other end can do without
                )

                sys.stderr.write(fault_traceback(problem))
            answer = {"error": problem.message, "hint": problem.hint}
        except OSError as problem:
            answer = {"error": f"The result cannot be kept: {problem.strerror or problem}.", "hint": "free some space"}
        except BaseException as problem:  # a policy may raise anything, SystemExit too; the other work is not to blame
            answer = {"error": f"{type(problem).__name__}: {problem}.", "hint": "rota policy check, with this policy"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
