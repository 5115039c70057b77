"""The Trainer of Hugging Face Transformers: a callback, and the checkpoint to resume from.

    from rota.train.huggingface import RotaCallback, last_checkpoint

    trainer = Trainer(model=model, args=args, train_dataset=data, callbacks=[RotaCallback()])
    trainer.train(resume_from_checkpoint=last_checkpoint(args.output_dir))

The Trainer saves to and loads from `output_dir` itself. The callback reports steps and loss to Rota. When Rota wants the GPUs,
all ranks save after the same step, and the script exits with code 75. The callback adds a manifest to every checkpoint that the
Trainer writes, so that an incomplete one is recognised.
"""

import os
import re
import warnings
from pathlib import Path
from typing import Any

try:
    from transformers import TrainerCallback
except ModuleNotFoundError as error:
    if error.name != "transformers":
        raise
    raise ImportError(
        "rota.train.huggingface needs Hugging Face Transformers, which is not installed. Try: pip install transformers"
    ) from error

from rota.errors import CheckpointError
from rota.train.folder_checkpoints import add_manifest, verified
from rota.train.session import SAVE_EVERY_SECONDS, CheckpointWarning, Session, YieldExit

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


class RotaCallback(TrainerCallback):  # type: ignore[misc]  # its class is not known to the type checker
    """A callback of a Trainer. `every_seconds`: interval between saves under Rota, besides those of the Trainer itself; None for
    no other saves."""

    def __init__(self, every_seconds: float | None = SAVE_EVERY_SECONDS) -> None:
        self._every_seconds = every_seconds
        self._job: Session | None = None
        self._leaving = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        total = state.max_steps if state.max_steps > 0 else None
        job = Session(steps=total, every_seconds=self._every_seconds, framework_saves=True, first_step=state.global_step)
        self._job = job.__enter__()

    # Processes that load data are started between these two events.

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._job is not None:
            self._job.shield(True)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._job is not None:
            self._job.shield(False)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._job is None:
            return
        action = self._job.count()
        if action.save:
            control.should_save = True
        if action.leave:
            self._leaving = control.should_training_stop = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if self._job is not None and logs and "loss" in logs:
            self._job.log(loss=logs["loss"])

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Add a manifest when all ranks have written their parts."""
        args.distributed_state.wait_for_everyone()
        if self._job is None:
            return
        if state.is_world_process_zero:
            add_manifest(Path(args.output_dir) / f"checkpoint-{state.global_step}", state.global_step)
        self._job.saved()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        job, self._job = self._job, None
        if job is None:
            return
        job.shield(False)
        if self._leaving:
            left = YieldExit(job.step)
            job.__exit__(YieldExit, left, None)
            raise left
        job.__exit__(None, None, None)


def last_checkpoint(output_dir: str | os.PathLike[str]) -> str | None:
    """Return the newest undamaged checkpoint of a Trainer; None if there is none."""
    found = {int(match[1]): path for path in Path(output_dir).glob("checkpoint-*") if (match := _CHECKPOINT.fullmatch(path.name))}
    for _, path in sorted(found.items(), reverse=True):
        try:
            return str(verified(path).folder)
        except CheckpointError as error:
            warnings.warn(CheckpointWarning(f"{error.message} The checkpoint before it is used."), stacklevel=2)
    return None
