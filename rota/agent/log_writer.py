"""The process beside a supervisor that writes the job's log, and ends the job at its lease if the supervisor does not.

It has two threads. One writes the log, and may hang in a disk that does not answer. The other knows when the job has to be gone
(its lease, and the grace after it) and ends the job a moment after that, whatever its supervisor does: that one may be stopped,
or hang in a disk too. The second thread uses memory that it shares with the supervisor, signals and /proc, and touches no file.
A thread that hangs in the kernel holds up no other thread, only the end of its process; that is why the supervisor, which has
to end, writes no log.

It is forked from the supervisor, so that it is up at once and shares its memory. Its session is its own: a signal to the group
of the supervisor does not stop both. When the supervisor is gone, it ends what is left of the job, writes what has come, and
ends as well. If it is stopped then, it is woken.
"""

import contextlib
import mmap
import os
import select
import signal
import socket
import struct
import sys
import threading
from collections import deque
from pathlib import Path
from typing import NoReturn

from rota.agent import child
from rota.agent.log import Log
from rota.agent.processes import ProcessIdentity, boot_s, end_all, kill, members

MARGIN_SECONDS = 1.0
"""How much later than the supervisor this process ends a job."""
AGAIN_SECONDS = 1.0
MAX_SLEEP_SECONDS = 10.0
"""A sleep does not count the time that the machine itself slept, and a lease does."""
KILL_REMAINING_SECONDS = 5.0
SUPERVISOR_WORD, WRITER_WORD = "rota.agent.supervisor", "rota.agent.log_writer"
ROOM_BYTES = 1 << 18
"""Output that may wait in the supervisor for the log; the rest waits in the job's pipe."""
MAX_MESSAGE_CHARS = 1024

_OUTPUT, _MARK, _NOTE, _ANNOUNCE, _FINISH = b"o", b"m", b"n", b"a", b"f"
_FRAME = struct.Struct("<cI")
"""Kind and length of what goes to the log."""
_LEASE = struct.Struct("<dqd")
"""When the job has to be gone, its main process, and when that was last known to be its own."""
_OPENED, _KILLED, _PROBLEM = b"opened", b"killed", b"problem "


class LogWriter:
    """The supervisor's side. Only `wait_until_open` and `finish` wait, and not for longer than they are given."""

    def __init__(self, path: Path, limit_bytes: int, signs: ProcessIdentity) -> None:
        self._path, self._limit, self._signs = path, limit_bytes, signs
        self.opened = self.killed = False
        """Whether the log is open, and whether the job was ended because the supervisor had not done so."""
        self.problem = ""
        """Why the log could not be opened."""
        self._frames: deque[bytes] = deque()
        self._sent = self._waiting = 0
        """Bytes of the first frame that were handed on, and of all that wait."""
        self._lease = mmap.mmap(-1, mmap.PAGESIZE)
        """Shared: the newest lease is there whenever the other process looks, however long it was stopped."""
        self._lease[: _LEASE.size] = _LEASE.pack(float("inf"), 0, 0.0)
        self._started_s = self._taken_s = boot_s()
        self.data, self.control, self.pid = self._fork()
        """Pipe, socket and number of the process; the number is 0 when it has ended."""

    def _fork(self) -> tuple[int, socket.socket, int]:
        inbox, data = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(data, False)
        control, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control.setblocking(False)
        pid = os.fork()
        if pid == 0:
            _run(self._path, self._limit, inbox, _Watch(self._signs, self._lease, its))
        os.close(inbox)
        its.close()
        return data, control, pid

    def start_again(self) -> None:
        """Start another one, because it was killed: what that had not written of its pipe is lost. Not too often."""
        if boot_s() < self._started_s + AGAIN_SECONDS:
            return
        self._close()
        self.data, self.control, self.pid = self._fork()
        self._sent, self._started_s = 0, boot_s()
        self._taken_s = self._started_s
        self.flush()

    def _close(self) -> None:
        os.close(self.data)
        self.control.close()

    # The lease.

    def guard(self, gone_s: float, main: int, seen_s: float) -> None:
        """Say when the job has to be gone. `main`: its main process, known to be its own at `seen_s`."""
        self._lease[: _LEASE.size] = _LEASE.pack(gone_s, main, seen_s)
        with contextlib.suppress(OSError):  # Its box is full, or it was killed and another one is started.
            self.control.send(b".")

    def listen(self) -> None:
        """Take what it has to say."""
        with contextlib.suppress(OSError):
            while True:
                message = self.control.recv(MAX_MESSAGE_CHARS)
                if not message:
                    self.problem = self.problem or "the process that writes it was killed"
                    return
                self.opened |= message == _OPENED
                self.killed |= message == _KILLED
                if message.startswith(_PROBLEM):
                    self.problem = message.removeprefix(_PROBLEM).decode(errors="replace")

    def wait_until_open(self, seconds: float) -> bool:
        """Whether the log was opened in this time."""
        deadline_s = boot_s() + seconds
        while not self.opened and not self.problem and (left := deadline_s - boot_s()) > 0:
            select.select([self.control], [], [], left)
            self.listen()
        return self.opened

    # The log.

    @property
    def has_room(self) -> bool:
        return self._waiting < ROOM_BYTES

    @property
    def waits(self) -> bool:
        """Whether something has to be handed on when there is room in its pipe."""
        return self.pid != 0 and bool(self._frames)

    def write(self, data: bytes) -> None:
        """Hand output on."""
        self._put(_OUTPUT, data)

    def mark(self, text: str) -> None:
        """A line of its own in the log, whatever the job left there."""
        self._put(_MARK, text.encode(errors="replace"))

    def note(self, text: str) -> None:
        """A line in the log, unless the job is in the middle of one."""
        self._put(_NOTE, text.encode(errors="replace"))

    def announce(self, text: str) -> None:
        """Put a line before the next line that the job begins, if it begins one before the next mark."""
        self._put(_ANNOUNCE, text.encode(errors="replace"))

    def _put(self, kind: bytes, data: bytes) -> None:
        if not self._frames:
            self._taken_s = boot_s()
        self._frames.append(_FRAME.pack(kind, len(data)) + data)
        self._waiting += len(self._frames[-1])
        self.flush()

    def flush(self) -> None:
        """Hand on what its pipe takes."""
        with contextlib.suppress(OSError):
            while self._frames:
                taken = os.write(self.data, self._frames[0][self._sent :])
                self._taken_s = boot_s()
                self._sent += taken
                if self._sent == len(self._frames[0]):
                    self._waiting -= len(self._frames.popleft())
                    self._sent = 0

    def finish(self, seconds: float) -> bool:
        """End it with its log. Return False if it took nothing for this many seconds and was killed."""
        if not self.pid:
            self._started_s = 0.0
            self.start_again()
        since_s = self._taken_s if self._frames else boot_s()
        self._put(_FINISH, b"")
        handle = os.pidfd_open(self.pid)
        try:
            while (left := since_s + seconds - boot_s()) > 0:
                before_s = self._taken_s
                ended, _, _ = select.select([handle], [self.data] if self._frames else [], [], left)
                self.flush()
                if self._taken_s != before_s:
                    since_s = self._taken_s
                if ended:
                    return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]) == 0
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            return False
        finally:
            os.close(handle)
            self._close()


# Its own side.


def _run(path: Path, limit_bytes: int, inbox: int, watch: "_Watch") -> NoReturn:
    try:
        _set_apart({inbox, watch.control.fileno()})
        watch.control.setblocking(False)
        done, ring = os.pipe2(os.O_CLOEXEC)
        writing = threading.Thread(target=_write, args=(path, limit_bytes, inbox, watch.control, ring), daemon=True)
        writing.start()
        if watch.run(done):
            end_all(watch.signs._replace(ancestor=None), seconds=KILL_REMAINING_SECONDS)
            writing.join(KILL_REMAINING_SECONDS)
    except BaseException:
        _give_up()
    os._exit(0)


def _give_up() -> NoReturn:
    """The supervisor starts another one."""
    sys.excepthook(*sys.exc_info())
    os._exit(1)


def _set_apart(kept: set[int]) -> None:
    """Nothing of the supervisor's stays but these files: its locks are dropped with it."""
    os.setsid()
    os.chdir("/")
    signal.set_wakeup_fd(-1)
    for number in child.ASKED_TO_STOP:
        signal.signal(number, signal.SIG_IGN)
    first = 3
    for descriptor in sorted(kept):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, os.sysconf("SC_OPEN_MAX"))
    child.wake_when_parent_dies()
    child.rename_word(SUPERVISOR_WORD, WRITER_WORD)


# The thread that writes.


def _write(path: Path, limit_bytes: int, inbox: int, control: socket.socket, ring: int) -> None:
    """Write what comes, until the supervisor says that this was all, or is gone."""
    try:
        log = _open(path, limit_bytes, control)
        with os.fdopen(inbox, "rb") as frames:
            while len(header := frames.read(_FRAME.size)) == _FRAME.size:
                kind, length = _FRAME.unpack(header)
                data = frames.read(length)
                if kind == _FINISH:
                    os.write(ring, b".")
                    return
                if (log := log or _open(path, limit_bytes, control)) is None:
                    continue
                if kind == _OUTPUT:
                    log.write(data)
                else:
                    add = {_MARK: log.mark, _NOTE: log.note, _ANNOUNCE: log.announce}[kind]
                    add(data.decode(errors="replace"))
    except BaseException:
        _give_up()


def _open(path: Path, limit_bytes: int, control: socket.socket) -> Log | None:
    log, message = None, _OPENED
    try:
        log = Log(path, limit_bytes)
    except OSError as error:
        message = _PROBLEM + (error.strerror or str(error)).encode(errors="replace")[: MAX_MESSAGE_CHARS // 2]
    with contextlib.suppress(OSError):
        control.send(message)
    return log


# The thread that keeps the lease.


class _Watch:
    def __init__(self, signs: ProcessIdentity, lease: mmap.mmap, control: socket.socket) -> None:
        self.signs, self.control, self._lease = signs, control, lease
        self._known = b""
        self._due_s = float("inf")

    def run(self, done: int) -> bool:
        """Keep the lease until the log is finished (False) or the supervisor is gone (True)."""
        waiting = select.poll()
        for descriptor in (self.control.fileno(), done):
            waiting.register(descriptor, select.POLLIN)
        while True:
            self._read_lease()  # first: this process may have been stopped
            if boot_s() >= self._due_s:
                self._end()
                self._due_s = boot_s() + AGAIN_SECONDS
            ready = waiting.poll(1000.0 * min(max(self._due_s - boot_s(), 0.0), MAX_SLEEP_SECONDS) + 1.0)
            if done in {descriptor for descriptor, _ in ready}:
                return False
            if self._is_alone():
                return True

    def _read_lease(self) -> None:
        record = b""
        while record != (record := self._lease[: _LEASE.size]):  # it is written while it is read
            pass
        if record != self._known:
            gone_s, main, seen_s = _LEASE.unpack(record)
            self._known, self._due_s = record, gone_s + MARGIN_SECONDS
            self.signs = self.signs._replace(session=main or None, seen_s=seen_s)

    def _is_alone(self) -> bool:
        """Whether the supervisor is gone. What it sends only wakes this process."""
        try:
            while self.control.recv(MAX_MESSAGE_CHARS):
                pass
        except BlockingIOError:
            return False
        except ConnectionError:
            pass
        return True

    def _end(self) -> None:
        """Kill what lives of the job, and say so first: the supervisor, when it wakes, has to know why. What can be found
        without reading the memory of processes comes first."""
        found = members(self.signs, by_environment=False)
        if found:
            with contextlib.suppress(OSError):
                self.control.send(_KILLED)
        for process in found:
            kill(process)
        for process in members(self.signs):
            kill(process)
