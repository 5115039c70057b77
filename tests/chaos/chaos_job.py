"""What the jobs of chaos run. It counts steps, notes what it did, holds locks that show who runs at the same time, and stops
in the middle of something if it is told to.

    job.py WORK SORT SEED STEPS PACE

SORT: `session` trains by `rota.train`; `plain` saves by itself; `bare` saves nothing, and starts again if it is not parked;
`fails` saves by itself, and exits with 3 in place of its last step. The result depends on SEED and STEPS alone. Outside Rota it
only prints that: this is the run that nothing interrupted.
"""

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import json
import os
import random
import resource
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORK, SORT, SEED, STEPS, PACE = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5])
JOB, ATTEMPT = os.environ.get("ROTA_JOB_ID", ""), os.environ.get("ROTA_ATTEMPT", "")
ARRAY, AT_ONCE = os.environ.get("ROTA_ARRAY_ID", ""), int(os.environ.get("CHAOS_AT_ONCE", "0"))
SAVES_ITSELF = SORT in ("plain", "fails")
PARK_SIGNAL = 45
EPOCH = 10
"""Steps of a pass over the data."""
SAVE_SECONDS, SAVE_STEPS = 0.2, 5
"""How often a session saves, and how often a plain job does."""
SLOW_SAVE_SECONDS = 1.5
"""How long a task of an array with a limit takes to save: another one would have begun by then."""
STATE_BYTES = 1 << 17
"""More than a job under a quota may write (`faults.QUOTAS`)."""


def note(name: str, *words: object) -> None:
    """One line in one write: it is there or not, under a quota too."""
    if JOB:
        line, (limit, _) = (" ".join(map(str, words)) + "\n").encode(), resource.getrlimit(resource.RLIMIT_FSIZE)
        file = os.open(WORK / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if limit != resource.RLIM_INFINITY and os.fstat(file).st_size + len(line) > limit:
            raise OSError(errno.EFBIG, "no room for a note")
        os.write(file, line)
        os.close(file)


# Stopping in the middle.


class Holds:
    """Hears of every file and socket that Python is about to touch, and stops there if a file says so: `order.MOMENT` holds the
    number of the operation. The first job that comes to it takes it, says so in `held`, and waits until that is gone."""

    def __init__(self) -> None:
        self.moment = ""
        """What goes on: write, resume or nothing of interest."""
        self.count = 0
        self.sent = -1
        """Datagrams of the parking hook since it opened its socket; -1: it has none open."""
        self.inside = False

    def begin(self, moment: str) -> None:
        self.moment, self.count = moment, 0

    def end(self) -> None:
        """Whatever was to happen later than it took happens now."""
        self.reach(self.moment, 1 << 30)
        self.moment = ""

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        if self.inside or not (event == "open" or event.startswith(("os.", "socket."))):
            return
        where = str(args[1] if event.startswith("socket.") and len(args) > 1 else args[0] if args else "")
        if event == "socket.bind" and "/park-" in where:
            self.sent = 0
            self.reach("parking", 0)
        elif event == "socket.sendto" and self.sent >= 0:
            self.sent += 1
            self.reach("parking" if self.sent < 3 else "waking", self.sent)
        elif event == "os.remove" and "/park-" in where and self.sent >= 0:
            self.reach("waking", 1 << 30)
            self.sent = -1
        elif "/rota-" in where:
            if event == "os.mkdir" and "/new.i" in where and not self.moment:
                self.begin("write")
            self.count += 1
            self.reach(self.moment, self.count)

    def reach(self, moment: str, number: int) -> None:
        order = WORK / f"order.{moment}"
        if not JOB or not moment or not order.exists():
            return
        self.inside = True
        try:
            if number >= int(order.read_text()):
                order.rename(WORK / f"taken.{os.getpid()}")  # raises if another was quicker
                said = {"pid": os.getpid(), "supervisor": os.getppid(), "job": int(JOB), "operation": number}
                (WORK / "held.new").write_text(json.dumps(said))
                (WORK / "held.new").rename(WORK / "held")
                while (WORK / "held").exists():
                    time.sleep(0.005)
        except (FileNotFoundError, ValueError):
            pass
        finally:
            self.inside = False


HOLDS = Holds()

# Who runs at the same time.


def lock_of(name: str) -> int | None:
    """A lock; None: another process holds it."""
    lock = os.open(WORK / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def held(name: str) -> int:
    """A lock that no other process may hold now."""
    lock = lock_of(name)
    if lock is None:
        note("violations", f"{name} is held by another while job {JOB} attempt {ATTEMPT} wants it")
        os._exit(3)
    return lock


def one_of_the_tasks_at_once() -> int:
    """One of as many locks as tasks of its array may run at once."""
    for number in range(AT_ONCE):
        lock = lock_of(f"array-{ARRAY}-{number}")
        if lock is not None:
            return lock
    note("over_limit", f"{AT_ONCE} tasks of array {ARRAY} run while job {JOB} attempt {ATTEMPT} begins")
    os._exit(3)


def gpus() -> list[int]:
    return [held(f"gpu-{gpu}") for gpu in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]


@contextlib.contextmanager
def gpus_held() -> Iterator[None]:
    """For one step, by a job that can be parked: asleep it must not have them, so it falls asleep between two steps."""
    if not os.environ.get("ROTA_PARK"):
        yield
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {PARK_SIGNAL})
    try:
        locks = gpus()
        yield
        for lock in locks:
            os.close(lock)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {PARK_SIGNAL})


# Training.


class Model:
    """A chain of hashes, which stands for weights: each step depends on all before it and on its batch."""

    def __init__(self) -> None:
        self.step, self.state = 0, hashlib.sha256(SEED.encode()).hexdigest()
        self.told = os.open(WORK / f"{JOB}.told", os.O_RDWR | os.O_CREAT, 0o600) if JOB else -1

    def resumed(self) -> None:
        """It begins here. The steps that an earlier process had done beyond this are lost."""
        if JOB:
            before = int(os.pread(self.told, 16, 0) or b"0")
            note(f"{JOB}.life", "start", time.time(), self.step, before, ATTEMPT, os.getpid(), os.getuid())
            self.tell()

    def train(self, batch: int) -> None:
        with gpus_held():
            self.state = hashlib.sha256(f"{self.state} {batch}".encode()).hexdigest()
            time.sleep(PACE)
        self.step += 1
        self.tell()
        if SORT != "session":
            print(f"step {self.step}/{STEPS}", flush=True)

    def tell(self) -> None:
        if JOB:
            os.pwrite(self.told, b"%016d" % self.step, 0)

    def saved(self, step: int) -> None:
        """A checkpoint is whole."""
        note(f"{JOB}.life", "saved", time.time(), step)

    def save(self, path: Path) -> None:
        with path.open("wb") as file:
            file.write(f"{self.step} {self.state} ".encode())
            file.flush()
            file.write(hashlib.shake_256(self.state.encode()).digest(STATE_BYTES))
            file.flush()
            os.fsync(file.fileno())

    def load(self, path: Path) -> None:
        step, state, rest = path.read_bytes().split(b" ", 2)
        self.step, self.state = int(step), state.decode()
        if rest != hashlib.shake_256(state).digest(STATE_BYTES):
            note("violations", f"{path} is not what was saved")

    def finished(self) -> None:
        note(f"{JOB}.life", "done", time.time(), self.step, self.state)
        print("result", self.step, self.state, flush=True)


def order_of(epoch: int) -> list[int]:
    """The batches of a pass, in its order."""
    return random.Random(f"{SEED} {epoch}").sample(range(EPOCH), EPOCH)


def train_by_session(model: Model) -> None:
    from rota.errors import CheckpointError
    from rota.train.session import CheckpointWarning, Session

    class NotedSession(Session):
        def saved(self) -> None:
            HOLDS.end()
            super().saved()
            model.saved(self.step)

    def unsaved(message: Warning | str, *_: object) -> None:
        HOLDS.moment = ""
        if isinstance(message, CheckpointWarning):
            note(f"{JOB}.life", "unsaved", time.time(), model.step)
        print(message, flush=True)

    def load(folder: Path) -> None:
        model.load(folder / "state")
        HOLDS.end()

    warnings.showwarning = unsaved
    warnings.simplefilter("always")
    _bind_by_modes()
    HOLDS.begin("resume")
    with NotedSession(lambda folder: model.save(folder / "state"), load, every_seconds=SAVE_SECONDS) as job:
        HOLDS.moment = ""
        model.resumed()
        try:
            for epoch in job.epochs(STEPS // EPOCH):
                for batch in job.steps(order_of(epoch)):
                    model.train(batch)
        except CheckpointError as error:
            unsaved(CheckpointWarning(error.message))
            raise
    model.finished()


def train_plainly(model: Model) -> None:
    asked: list[int] = []
    state = WORK / f"{JOB}.state"
    if SAVES_ITSELF:
        signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
        if state.exists():
            model.load(state)
    model.resumed()

    def save() -> None:
        model.save(state.with_suffix(".new"))
        state.with_suffix(".new").replace(state)
        model.saved(model.step)

    while model.step < STEPS:
        if asked:
            time.sleep(SLOW_SAVE_SECONDS if AT_ONCE else 0.0)
            save()
            sys.exit(75)
        if SORT == "fails" and model.step == STEPS - 1:
            note(f"{JOB}.life", "failed", time.time(), model.step)
            os._exit(3)
        model.train(order_of(model.step // EPOCH)[model.step % EPOCH])
        if SAVES_ITSELF and model.step % SAVE_STEPS == 0:
            save()
    if SAVES_ITSELF:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Python would die of it on its way out
    model.finished()


def _bind_by_modes() -> None:
    """Root may write to any folder, whatever its mode. Without three capabilities it is bound like everyone else."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
        libc.capget(header, sets)
        sets[0] &= ~0b1110  # of those in effect: to pass over modes for writing, for reading, and as if it owned everything
        if libc.capset(header, sets):
            raise OSError("capabilities cannot be given up")


def main() -> None:
    sys.addaudithook(HOLDS.hear)
    if JOB:
        locks = [held(f"job-{JOB}"), *([] if os.environ.get("ROTA_PARK") else gpus())]
        locks += [one_of_the_tasks_at_once()] if AT_ONCE else []
        assert all(lock > 2 for lock in locks)
    model = Model()
    train_by_session(model) if SORT == "session" else train_plainly(model)


if __name__ == "__main__":
    main()
