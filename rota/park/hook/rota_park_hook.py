"""The hook that parks a job from inside. It runs in any Python from 3.8 on, and imports only the standard library.

The supervisor sends SIGNAL. Python calls the handler in the main thread, between two bytecodes, so no backward pass is under way
there. The handler asks the supervisor whether to park, moves the GPU memory of PyTorch to the host, reports `parked`, and waits
until it is resumed. All messages are datagrams with JSON:

    to the socket `tell` in ROTA_RUN_DIR   {"op": "parked", "pid": 7, "gib": 20.1, "seconds": 0.7, "cuda": true}
                                           and with op hooked, ringing, resumed, damaged, later or unparkable
    to the socket `park-PID` there         {"op": "park"}, {"op": "wake"} or {"op": "prepare"}

`rota/agent/parking.py` is the other side.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time

MYPY = False
if MYPY:
    from collections.abc import Mapping
    from typing import Any

SIGNAL = 45
"""Real-time signal SIGRTMIN+11 of glibc. Few programs use it."""
WAY, LIBRARY, PAGES, RUN_FOLDER = "ROTA_PARK", "ROTA_PARK_LIBRARY", "ROTA_PARK_PAGES", "ROTA_RUN_DIR"
"""Environment variables: the park method (`sleep` or `preload`), the preloaded allocator, the preloaded library that makes host
memory for it, and the folder with the sockets."""
PRELOAD = "preload"
REPORT_SOCKET = "tell"
GO_AHEAD_SECONDS = 10.0
"""Longest wait for the supervisor's reply whether to park, in seconds."""
GIB = 1 << 30


class Hook:
    """The hook of one process."""

    def __init__(self, folder: str, way: str, library: str, pages: str = "") -> None:
        self.folder, self.way, self.library, self.pages = folder, way, library, pages
        self.pid = os.getpid()
        self.inside = False
        self.backed = 0
        """Host memory reserved for GPU memory, in bytes. It is kept from one park to the next."""
        self.loaded: dict[str, Any] = {}

    def install(self) -> None:
        """Install the handler if there is none yet. Python allows this only in the main thread."""
        if signal.getsignal(SIGNAL) != signal.SIG_DFL:
            return
        signal.signal(SIGNAL, self.handle)
        self.tell("hooked")

    def handle(self, number: int, frame: object) -> None:
        """Park this process on SIGNAL. No error may reach the job. A forked child inherits the handler and ignores it."""
        if self.inside or os.getpid() != self.pid:
            return
        self.inside = True
        try:
            self.obey()
        except Exception as error:
            self.tell("unparkable", reason=f"{type(error).__name__}: {error}")
        finally:
            self.inside = False

    def obey(self) -> None:
        name = f"park-{self.pid}"
        path = os.path.join(self.folder, name)  # noqa: PTH118
        box = self.listen(path, name)
        try:
            self.tell("ringing")
            word = self.word(box, GO_AHEAD_SECONDS)
            if word == "park":
                self.park(box)
            elif word == "prepare":
                self.prepare()
        finally:
            box.close()
            os.unlink(path)  # noqa: PTH108

    def park(self, box: socket.socket) -> None:
        began_s = time.monotonic()
        torch = sys.modules.get("torch")
        cuda = self.way == PRELOAD and torch is not None and torch.cuda.is_initialized()
        reason = self.obstacle(torch if cuda else None) if self.way == PRELOAD else ""
        if reason:
            self.tell("later" if reason == "capturing" else "unparkable", reason=reason)
            return
        held = self.pause(torch) if cuda else 0
        self.tell("parked", gib=held / GIB, seconds=time.monotonic() - began_s, cuda=cuda)
        while self.word(box, None) != "wake":
            pass
        began_s = time.monotonic()
        damaged_mib = self.resume(torch) if cuda else 0
        if damaged_mib > 0:
            self.tell("damaged", mib=damaged_mib)
            os.kill(self.pid, signal.SIGKILL)  # it must neither go on nor save what it has
        self.tell("resumed", seconds=time.monotonic() - began_s)

    def prepare(self) -> None:
        """Have host memory made for the first park, slowly, while the job goes on. At least as much must remain free."""
        torch = sys.modules.get("torch")
        if self.way != PRELOAD or torch is None or not torch.cuda.is_initialized() or self.backed:
            return
        wanted, free = self.on_gpu(torch), _available_bytes()
        if free is not None and 2 * wanted < free and _is_loaded(self.pages):
            import ctypes

            self.call(self.pages, "rota_pages_prepare", ctypes.c_size_t(wanted))

    # GPU memory.

    def obstacle(self, torch: Any) -> str:
        """Return why this process cannot be parked now; an empty text if it can. `torch` is None if the process does not use CUDA
        through PyTorch."""
        if torch is None:
            return "it uses a GPU without PyTorch" if _has_gpu_open() else ""
        if torch.cuda.is_current_stream_capturing():
            return "capturing"
        if not _is_loaded(self.library):
            return f"the allocator {self.library} is not preloaded in it"
        wanted = self.on_gpu(torch)
        free = _available_bytes()
        if free is not None and wanted - self.backed > free:
            return f"the host has {free / GIB:.1f} GiB left, and the process has {wanted / GIB:.1f} GiB on its GPU"
        return ""

    def on_gpu(self, torch: Any) -> int:
        return sum(torch.cuda.memory_reserved(device) for device in range(torch.cuda.device_count()))

    def pause(self, torch: Any) -> int:
        """Move the GPU memory to the host, and return its size in bytes."""
        for device in range(torch.cuda.device_count()):
            torch.cuda.synchronize(device)
        torch.cuda.empty_cache()
        held = self.on_gpu(torch)
        self.move("tms_pause")
        self.call(self.pages, "rota_pages_pin")
        self.backed = max(self.backed, held)
        return held

    def resume(self, torch: Any) -> int:
        """Move the memory back to the GPU, and return how many MiB came back different, as far as that is known."""
        damaged_mib = self.move("tms_resume")
        for device in range(torch.cuda.device_count()):
            torch.cuda.synchronize(device)
        return damaged_mib

    def move(self, name: str) -> int:
        """Let the allocator move all memory, with host memory of our library if that is loaded. Return how many MiB came back
        different, or -1 if that is not known."""
        if not self.call(self.pages, "rota_pages_begin"):
            self.call(self.library, name, None)
            return -1
        try:
            self.call(self.library, name, None)
        finally:
            damaged = self.call(self.pages, "rota_pages_end")
        return damaged

    def call(self, library: str, name: str, *arguments: Any) -> int:
        """Call a function of a preloaded library. If the library is not loaded, return 0."""
        if library not in self.loaded:
            import ctypes

            self.loaded[library] = ctypes.CDLL(library) if _is_loaded(library) else None
        return 0 if self.loaded[library] is None else int(getattr(self.loaded[library], name)(*arguments))

    # Datagrams. A socket's address is at most 107 bytes and a path may be longer, so sockets are reached through an open folder.

    def listen(self, path: str, name: str) -> socket.socket:
        if os.path.exists(path):  # noqa: PTH110
            os.unlink(path)  # noqa: PTH108
        box = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        folder = os.open(self.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            box.bind(f"/proc/self/fd/{folder}/{name}")
        finally:
            os.close(folder)
        return box

    def tell(self, op: str, **more: Any) -> None:
        """Send a report to the supervisor. A report that cannot be delivered is dropped: the supervisor retries or gives up."""
        try:
            folder = os.open(self.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                try:
                    text = json.dumps(dict(more, op=op, pid=self.pid)).encode()
                    sender.settimeout(1.0)
                    sender.sendto(text, f"/proc/self/fd/{folder}/{REPORT_SOCKET}")
                finally:
                    sender.close()
            finally:
                os.close(folder)
        except OSError:
            pass

    def word(self, box: socket.socket, seconds: float | None) -> str:
        """Return the supervisor's next message; an empty text if none arrived in time or it is not understood."""
        ready, _, _ = select.select([box], [], [], seconds)
        if not ready:
            return ""
        try:
            message = json.loads(box.recv(4096))
        except ValueError:
            return ""
        return str(message.get("op", "")) if isinstance(message, dict) else ""


def install(variables: Mapping[str, str]) -> Hook | None:
    """Install the hook if the launcher has enabled parking for this job."""
    folder, way = variables.get(RUN_FOLDER, ""), variables.get(WAY, "")
    if not folder or not way:
        return None
    hook = Hook(folder, way, variables.get(LIBRARY, ""), variables.get(PAGES, ""))
    try:
        hook.install()
    except (OSError, ValueError, RuntimeError):  # such as in a Python embedded in a thread of another program
        return None
    return hook


def _is_loaded(library: str) -> bool:
    try:
        with open("/proc/self/maps") as file:  # noqa: PTH123
            return bool(library) and any(line.rstrip().endswith(library) for line in file)
    except OSError:
        return False


def _has_gpu_open() -> bool:
    """Return whether this process has a GPU open."""
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            target = os.readlink("/proc/self/fd/" + entry)  # noqa: PTH115
        except OSError:
            continue
        if target.startswith("/dev/nvidia") and target[len("/dev/nvidia") :].isdigit():
            return True
    return False


def _available_bytes() -> int | None:
    """Return the available host memory in bytes; None if unknown."""
    try:
        with open("/proc/meminfo") as file:  # noqa: PTH123
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None
