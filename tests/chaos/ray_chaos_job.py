"""What the jobs of chaos on a cluster run, on each node of a gang. It trains by `rota.train`, notes what it did, and holds locks
that show who runs at the same time.

    job.py WORK SEED STEPS PACE

The parts of a gang speak to each other at every step, by TCP, as collectives do: no part is ahead of another, and none goes on
without the others. The result depends on SEED and STEPS alone. Outside Rota it only prints that: nothing interrupts this run.

A process that was stopped, and wakes up when another attempt of its job has begun, still holds its locks. It is told apart:
the other one sees that it is stopped, and it sees itself that it is late. The steps that it makes then are noted as late ones.
"""

import fcntl
import hashlib
import os
import random
import socket
import sys
import time
from pathlib import Path

WORK, SEED, STEPS, PACE = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
JOB, ATTEMPT = os.environ.get("ROTA_JOB_ID", ""), int(os.environ.get("ROTA_ATTEMPT", "0"))
NODE, RANK, PARTS = os.environ.get("ROTA_NODE", ""), int(os.environ.get("NODE_RANK", "0")), int(os.environ.get("NNODES", "1"))
EPOCH = 10
"""Steps of a pass over the data."""
SAVE_SECONDS = 1.0
STATE_BYTES = 1 << 14


def note(name: str, *words: object) -> None:
    """One line in one write."""
    if JOB:
        file = os.open(WORK / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(file, (" ".join(map(str, words)) + "\n").encode())
        os.close(file)


# Who runs at the same time.


def is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "tT"
    except OSError:
        return False


class Locks:
    """Of this rank of the job, and of its GPUs."""

    def __init__(self) -> None:
        gpus = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
        self._wanted: dict[str, int] = {}
        """Those that a stopped process holds: they are taken when it is gone."""
        for name in [f"job-{JOB}-{RANK}", *(f"gpu-{NODE}-{gpu}" for gpu in gpus)]:
            lock = os.open(WORK / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
            if self._take(lock):
                continue
            if not is_stopped(int(os.pread(lock, 20, 0) or b"0")):
                note("violations", f"{name} is held by another while job {JOB} attempt {ATTEMPT} wants it")
                os._exit(3)
            note(f"{JOB}.beside", time.time(), ATTEMPT, name)
            self._wanted[name] = lock
        self._newest = os.open(WORK / f"{JOB}-{RANK}.newest", os.O_RDWR | os.O_CREAT, 0o600)
        os.pwrite(self._newest, b"%08d" % ATTEMPT, 0)

    def _take(self, lock: int) -> bool:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        os.pwrite(lock, b"%08d" % os.getpid(), 0)
        return True

    def late(self) -> bool:
        """Whether another attempt has begun. Takes what a process that woke up late has left."""
        for name in [name for name, lock in self._wanted.items() if self._take(lock)]:
            del self._wanted[name]
        return int(os.pread(self._newest, 8, 0)) > ATTEMPT


# Training.


class Others:
    """The other parts of the gang. Each step is begun by all or by none."""

    def __init__(self) -> None:
        self._boxes: list[socket.socket] = []
        if PARTS == 1:
            return
        where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        if RANK == 0:
            with socket.create_server(where, backlog=PARTS) as door:
                door.settimeout(120.0)
                self._boxes = [door.accept()[0] for _ in range(PARTS - 1)]
        else:
            end = time.monotonic() + 120.0
            while not self._boxes:
                try:
                    self._boxes.append(socket.create_connection(where, timeout=10.0))
                except OSError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.05)
        for box in self._boxes:
            box.settimeout(None)
            box.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def step(self, number: int) -> None:
        """Raises if another part is gone."""
        word = b"%08d" % number
        if RANK == 0:
            heard = [self._hear(box) for box in self._boxes]
            for box in self._boxes:
                box.sendall(word)
        else:
            self._boxes[0].sendall(word)
            heard = [self._hear(self._boxes[0])]
        if any(each != word for each in heard):
            note("violations", f"parts of job {JOB} are at different steps: {word!r} and {heard}")
            os._exit(3)

    def _hear(self, box: socket.socket) -> bytes:
        found = b""
        while len(found) < 8:
            more = box.recv(8 - len(found))
            if not more:
                raise ConnectionError("another part of this job is gone")
            found += more
        return found


class Model:
    """A chain of hashes, which stands for weights: each step depends on all before it and on its batch."""

    def __init__(self, locks: Locks | None) -> None:
        self.step, self.state, self._locks = 0, hashlib.sha256(SEED.encode()).hexdigest(), locks
        self._others = Others() if JOB else None
        self._told = os.open(WORK / f"{JOB}.told", os.O_RDWR | os.O_CREAT, 0o600) if JOB else -1

    def resumed(self) -> None:
        """It begins here. The steps that an earlier process had done beyond this are lost."""
        if JOB:
            before = int(os.pread(self._told, 16, 0) or b"0")
            note(f"{JOB}.life", "start", time.time(), self.step, before, ATTEMPT, os.getpid(), RANK, NODE)

    def train(self, batch: int) -> None:
        if self._others is not None:
            self._others.step(self.step)
        if not (WORK / "hurry").exists():
            time.sleep(PACE)
        self.state = hashlib.sha256(f"{self.state} {batch}".encode()).hexdigest()
        self.step += 1
        if self._locks is not None and self._locks.late():
            note(f"{JOB}.late", time.time(), self.step, ATTEMPT, RANK, NODE)
        elif JOB and RANK == 0:
            os.pwrite(self._told, b"%016d" % self.step, 0)
            note(f"{JOB}.steps", time.time(), ATTEMPT, self.step)

    def save(self, path: Path) -> None:
        path.write_bytes(f"{self.step} {self.state} ".encode() + hashlib.shake_256(self.state.encode()).digest(STATE_BYTES))

    def load(self, path: Path) -> None:
        step, state, rest = path.read_bytes().split(b" ", 2)
        self.step, self.state = int(step), state.decode()
        if rest != hashlib.shake_256(state).digest(STATE_BYTES):
            note("violations", f"{path} is not what was saved")


def order_of(epoch: int) -> list[int]:
    """The batches of a pass, in its order."""
    return random.Random(f"{SEED} {epoch}").sample(range(EPOCH), EPOCH)


def main() -> None:
    locks = Locks() if JOB else None
    os.environ |= {"RANK": str(RANK), "WORLD_SIZE": str(PARTS)}  # one process for each part, as torchrun would say
    from rota.train.session import Session

    class NotedSession(Session):
        def saved(self) -> None:
            super().saved()
            if RANK == 0 and not (locks is not None and locks.late()):
                note(f"{JOB}.life", "saved", time.time(), self.step)

    model = Model(locks)
    save, load = (lambda folder: model.save(folder / "state")), (lambda folder: model.load(folder / "state"))
    with NotedSession(save, load, every_seconds=SAVE_SECONDS) as job:
        model.resumed()
        for epoch in job.epochs(STEPS // EPOCH):
            for batch in job.steps(order_of(epoch)):
                model.train(batch)
    if RANK == 0:
        note(f"{JOB}.life", "done", time.time(), model.step, model.state)
        print("result", model.step, model.state, flush=True)


if __name__ == "__main__":
    main()
