"""Hugging Face Accelerate: a session that saves and loads with `save_state` and `load_state` of the accelerator.

    from rota.train.accelerate import session

    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    with session(accelerator) as job:
        for epoch in job.epochs(10):
            for batch in job.steps(loader):
                ...

It saves the random states and everything that was passed to `prepare` or `register_for_checkpointing`.
"""

import os
from pathlib import Path
from typing import Any

from rota.train.checkpoint import KEEP_CHECKPOINTS
from rota.train.exact import ExactSession
from rota.train.session import SAVE_EVERY_SECONDS


class AccelerateSession(ExactSession):
    """A session of an accelerator. Create it with `session`."""

    def __init__(
        self,
        accelerator: Any,
        *,
        steps: int | None = None,
        folder: str | os.PathLike[str] | None = None,
        every_seconds: float | None = SAVE_EVERY_SECONDS,
        keep: int = KEEP_CHECKPOINTS,
    ) -> None:
        self._accelerator = accelerator
        super().__init__(self._save_state, self._load_state, steps=steps, folder=folder, every_seconds=every_seconds, keep=keep)

    def _save_state(self, part: Path) -> None:
        """Save the random states of this rank, and the accelerator's state into the folder of rank 0. Wait for all ranks, because
        the checkpoint is completed next."""
        self.save_random(part)
        self._accelerator.save_state(str(part.parent / "rank-0" / "state"), safe_serialization=True)
        self._accelerator.wait_for_everyone()

    def _load_state(self, part: Path) -> None:
        self._accelerator.load_state(str(part.parent / "rank-0" / "state"))
        self.load_random(part)


def session(
    accelerator: Any,
    *,
    steps: int | None = None,
    folder: str | os.PathLike[str] | None = None,
    every_seconds: float | None = SAVE_EVERY_SECONDS,
    keep: int = KEEP_CHECKPOINTS,
) -> AccelerateSession:
    """Return a session for a `with` statement. Its options are those of `rota.train.session`."""
    return AccelerateSession(accelerator, steps=steps, folder=folder, every_seconds=every_seconds, keep=keep)
