"""A machine with real processes, for tests. Nothing that it started outlives a test."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from rota.agent.attempt_files import read_order
from rota.agent.attempt_handle import PACKAGES
from rota.agent.constants import ATTEMPT_ID, KILL, RENEW, RESIZE, RESUME, SUSPEND
from rota.agent.datagrams import send
from rota.agent.disk import CONTROL, JOB_LOCK, SUPERVISOR_LOCK, attempt_folder, is_free
from rota.agent.log import LIMIT_BYTES
from rota.agent.machine import AttemptManager, AttemptStatus, LaunchOrder
from rota.agent.processes import ProcessIdentity, boot_s, end_all
from rota.agent.rules import AgentCommand
from tests.waiting import LONG_SECONDS, until

FOREVER = "while :; do sleep 0.05; done"


class Machine(AttemptManager):
    """An agent's attempts, with a method for each command."""

    def suspend(self, job: int, attempt: int, sequence: int) -> bool:
        return self.carry_out(job, AgentCommand(SUSPEND, attempt, sequence))

    def park(self, job: int, attempt: int, sequence: int) -> bool:
        return self.carry_out(job, AgentCommand(SUSPEND, attempt, sequence, parks=True))

    def resume(self, job: int, attempt: int, sequence: int, seconds: float) -> bool:
        now_s = boot_s()
        return self.carry_out(job, AgentCommand(RESUME, attempt, sequence, lease_s=now_s + seconds, sent_s=now_s))

    def resize(
        self,
        job: int,
        attempt: int,
        sequence: int,
        batch_size: int,
        env: Mapping[str, str | None] | None = None,
        gpus_text: str = "",
    ) -> bool:
        resize = AgentCommand(RESIZE, attempt, sequence, batch_size=batch_size, env=env, gpus_text=gpus_text)
        return self.carry_out(job, resize)

    def kill(self, job: int, attempt: int, sequence: int) -> bool:
        return self.carry_out(job, AgentCommand(KILL, attempt, sequence))

    def renew(self, job: int, attempt: int, seconds: float) -> bool:
        now_s = boot_s()
        return self.carry_out(job, AgentCommand(RENEW, attempt, lease_s=now_s + seconds, sent_s=now_s))


class Bench:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.rung = threading.Event()
        self.machines: list[Machine] = []
        self.others: list[subprocess.Popen[bytes]] = []
        self.machine = self.open()

    def open(self) -> Machine:
        """Another daemon on the same home: the one before is as if it were dead, since only locks and files remain of it."""
        for machine in self.machines:
            machine.close()
        self.machine = Machine(self.home, self.rung.set)
        self.machines.append(self.machine)
        return self.machine

    def order(
        self,
        *argv: str,
        job: int = 1,
        attempt: int = 1,
        sequence: int = 1,
        env: dict[str, str] | None = None,
        workdir: str = "/",
        from_step: float = 0.0,
        lease_seconds: float = 300.0,
        grace_seconds: float = 60.0,
        lease_grace_seconds: float = 0.1,
        stop_signal: str = "SIGTERM",
        progress: str = "",
        steps_total: float | None = None,
        log_bytes: int = LIMIT_BYTES,
        clock_origin_s: float | None = None,
    ) -> LaunchOrder:
        return LaunchOrder(
            job=job,
            attempt=attempt,
            sequence=sequence,
            argv=argv,
            env={"PATH": os.environ["PATH"]} if env is None else env,
            workdir=workdir,
            log=self.log(job),
            gpus_text="n1 GPUs 0,1",
            from_step=from_step,
            lease_seconds=lease_seconds,
            grace_seconds=grace_seconds,
            lease_grace_seconds=lease_grace_seconds,
            signal=stop_signal,
            progress=progress,
            steps_total=steps_total,
            log_bytes=log_bytes,
            clock_origin_s=clock_origin_s,
        )

    def sh(self, script: str, **how: object) -> LaunchOrder:
        """A job that is a shell script; put into an order only, started by `launch`."""
        return self.order("sh", "-c", script, **how)  # type: ignore[arg-type]

    def start(self, script: str, **how: object) -> None:
        """Launch a script, and wait until it has said `ready`."""
        order = self.sh(script, **how)
        before = self.said(order.job).count("ready\n")
        self.machine.launch(order)
        until(lambda: self.said(order.job).count("ready\n") > before or self.part(order.job, order.attempt).state == "ended")
        self.wait(order.job, order.attempt, "running")

    def log(self, job: int = 1) -> Path:
        return self.home / "logs" / f"{job}.log"

    def said(self, job: int = 1) -> str:
        return self.log(job).read_text(errors="replace") if self.log(job).exists() else ""

    def folder(self, job: int = 1, attempt: int = 1) -> Path:
        return attempt_folder(self.home, job, attempt)

    def part(self, job: int = 1, attempt: int = 1) -> AttemptStatus:
        self.machine.poll()
        (found,) = [part for part in self.machine.inventory() if (part.job, part.attempt) == (job, attempt)]
        return found

    def wait(self, job: int = 1, attempt: int = 1, state: str = "ended") -> AttemptStatus:
        until(lambda: self.part(job, attempt).state in {state, "ended"}, f"state {state}")
        part = self.part(job, attempt)
        assert part.state == state, part
        return part

    def datagram(self, text: bytes, job: int = 1, attempt: int = 1) -> None:
        until(lambda: send(self.folder(job, attempt), CONTROL, text), "room in its box")

    def supervisor(self, job: int = 1, attempt: int = 1) -> int:
        """The number of its process."""
        (found,) = self.processes("rota.agent.supervisor", job, attempt)
        return found

    def log_writer(self, job: int = 1, attempt: int = 1) -> int:
        """The number of the process beside its supervisor."""
        (found,) = self.processes("rota.agent.log_writer", job, attempt)
        return found

    def processes(self, word: str, job: int = 1, attempt: int = 1) -> list[int]:
        """Processes of ours by what they are and for which attempt."""
        folder, found = str(self.folder(job, attempt)).encode(), []
        for process in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0") if process.name.isdecimal() else []
                found += [int(process.name)] if word.encode() in words and folder in words else []
        return found

    def supervise(self, job: int = 1, attempt: int = 1) -> "subprocess.Popen[bytes]":
        """A supervisor by hand."""
        process = subprocess.Popen(
            [sys.executable, "-S", "-P", "-m", "rota.agent.supervisor", str(self.folder(job, attempt))],
            env={**os.environ, "PYTHONPATH": PACKAGES},
            start_new_session=True,
        )
        self.others.append(process)
        return process

    def job_lock_is_free(self, job: int = 1) -> bool:
        return is_free(self.home / "run" / str(job) / JOB_LOCK)

    def clean(self) -> None:
        """Kill what is left: supervisors by their folder, jobs by their life."""
        for machine in self.machines:
            machine.close()
        # Looked up now: a test may have removed a folder.
        for process in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                command = (process / "cmdline").read_bytes() if process.name.isdecimal() else b""
                ours = b"rota.agent.supervisor" in command or b"rota.agent.log_writer" in command
                if ours and str(self.home).encode() in command:
                    os.kill(int(process.name), signal.SIGKILL)
        for launch in self.home.glob("run/*/*/launch.json"):
            if (order := read_order(launch.parent)) is not None:
                end_all(ProcessIdentity(order.env[ATTEMPT_ID], 0.0), seconds=LONG_SECONDS)
        for other in self.others:
            other.wait(LONG_SECONDS)
        until(lambda: all(is_free(lock) for lock in self.home.glob(f"run/*/*/{SUPERVISOR_LOCK}")))
