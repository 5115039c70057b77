"""Files by which the agents of a node agree on the latest agent, the latest scheduler and the number of the boot."""

import contextlib
import json
import secrets
import time
from pathlib import Path

from rota.agent.disk import RUN, write_atomic
from rota.agent.processes import boot_id

BOOT_FILE, AGENT_FILE, EPOCH_FILE = "boot.json", "agent", "epoch"


class NodeFiles:
    """The files of one node, as its latest agent writes them."""

    def __init__(self, folder: Path) -> None:
        """Make the agent that calls this the latest of the node."""
        self.folder, self.token = folder, secrets.token_hex(8)
        write_atomic(folder, AGENT_FILE, self.token.encode(), durable=False)
        self.epoch = int((folder / EPOCH_FILE).read_text()) if (folder / EPOCH_FILE).exists() else 0
        """The latest epoch of all schedulers that have asked."""

    def is_latest(self) -> bool:
        """Whether this is the latest agent of the node. An agent that stood still may have been replaced."""
        try:
            return (self.folder / AGENT_FILE).read_bytes() == self.token.encode()
        except FileNotFoundError:
            return False

    def keep_epoch(self, epoch: int) -> None:
        """Write down a later epoch, before anything is done in it."""
        if epoch > self.epoch:
            write_atomic(self.folder, EPOCH_FILE, str(epoch).encode(), durable=True)
            self.epoch = epoch


def boot_number(folder: Path) -> int:
    """Return a number that stays while the machine runs and rises with every boot, also on a disk that was wiped meanwhile.

    It is in two files: if it changed while jobs live here, the scheduler would take them for dead.
    """
    number = 0
    for path in _boot_files(folder):
        with contextlib.suppress(FileNotFoundError, ValueError, TypeError):
            seen, before = json.loads(path.read_text(encoding="utf-8"))
            if seen == boot_id():
                keep_boot_number(folder, int(before))
                return int(before)
            number = max(number, int(before))
    number = max(number + 1, int(time.time()))
    keep_boot_number(folder, number)
    return number


def keep_boot_number(folder: Path, number: int) -> None:
    for path in _boot_files(folder):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_atomic(path.parent, path.name, json.dumps([boot_id(), number]).encode(), durable=True)


def _boot_files(folder: Path) -> tuple[Path, Path]:
    return folder / BOOT_FILE, folder / RUN / BOOT_FILE
