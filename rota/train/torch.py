"""A session that saves everything a PyTorch run consists of, so that a resumed run is equal to the original, bit for bit on a
CPU.

    from rota.train.torch import session

    with session(model, optimizer, scheduler, seed=0) as job:
        batches = job.loader(dataset, batch_size=64, num_workers=2)
        for epoch in job.epochs(10):
            for inputs, targets in job.steps(batches):
                ...
                job.log(loss=loss)
            scheduler.step()

It saves and loads the model, the optimizer, the schedule, the random states of Python, NumPy (if it is imported) and PyTorch, and
the position in the data. Files are read with `weights_only=True`, so loading runs no code.

Rank 0 saves the model, the optimizer and the schedule, which are equal on all ranks in data parallel training. Each rank saves
its own random state. The batch size is that of all ranks together.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from rota.errors import CheckpointError, OptionError
from rota.train.checkpoint import KEEP_CHECKPOINTS
from rota.train.exact import ExactSession, read_tensors
from rota.train.learning_rate_ramp import HIGHEST_FACTOR, RateRamp
from rota.train.rank_environment import JobEnvironment
from rota.train.resumable_loader import ResumableLoader
from rota.train.session import SAVE_EVERY_SECONDS

COMMON = "common.pt"


class TorchSession(ExactSession):
    """A session of a PyTorch run. Create it with `session`."""

    def __init__(
        self,
        model: Any,
        optimizer: Any = None,
        scheduler: Any = None,
        *,
        others: Mapping[str, Any] | None = None,
        seed: int = 0,
        steps: int | None = None,
        highest_rate_factor: float = HIGHEST_FACTOR,
        folder: str | os.PathLike[str] | None = None,
        every_seconds: float | None = SAVE_EVERY_SECONDS,
        keep: int = KEEP_CHECKPOINTS,
        environment: JobEnvironment | None = None,
    ) -> None:
        self._parts: dict[str, Any] = {"model": _unwrapped(model), **(others or {})}
        self._parts |= {} if optimizer is None else {"optimizer": optimizer}
        self._parts |= {} if scheduler is None else {"scheduler": scheduler}
        for name, part in self._parts.items():
            if not hasattr(part, "state_dict") or not hasattr(part, "load_state_dict"):
                raise OptionError(
                    "has no state_dict and load_state_dict.",
                    field=name,
                    value=type(part).__name__,
                    hint="give it to `save` yourself",
                )
        self._optimizer, self._highest = optimizer, highest_rate_factor
        self._seed = seed
        self._loader: ResumableLoader | None = None
        self._position: dict[str, int] = {}
        """State of the data loader from the checkpoint."""
        self._usual_batch = 0
        """Batch size that the learning rate was chosen for."""
        self._ramp = RateRamp()
        self._usual_rates: list[float] | None = None
        super().__init__(
            self._save_state,
            self._load_state,
            steps=steps,
            folder=folder,
            every_seconds=every_seconds,
            keep=keep,
            environment=environment,
        )
        if optimizer is not None:
            optimizer.register_step_pre_hook(self._scale_rate)
            optimizer.register_step_post_hook(self._restore_rate)

    # Data.

    def loader(
        self, dataset: Any, batch_size: int, *, shuffle: bool = True, drop_last: bool = False, **options: Any
    ) -> ResumableLoader:
        """Return a data loader that continues at the position of the run. `batch_size`: examples per step over all ranks, for
        which the learning rate was chosen; Rota may grant another. Other options are those of `torch.utils.data.DataLoader`."""
        if self._loader is not None:
            raise OptionError(
                "was called before: a session has one loader.", field="loader", hint="use a DataLoader for validation"
            )
        self.batch_size = self.environment.batch_size or batch_size
        self._loader = ResumableLoader(
            dataset,
            batch_size=self.batch_size,
            seed=self._seed,
            shuffle=shuffle,
            drop_last=drop_last,
            rank=self.environment.rank,
            world_size=self.environment.world_size,
            **options,
        )
        self._loader.load_state_dict(self._position)
        self._usual_batch = batch_size
        self._follow_batch()
        return self._loader

    def _resize(self) -> None:
        if self._loader is not None:
            self._loader.batch_size = self.batch_size
            self._follow_batch()

    def _follow_batch(self) -> None:
        assert self._loader is not None
        self._step_work = self.batch_size / self._usual_batch
        epoch_steps = len(self._loader)
        self._ramp = self._ramp.towards(self.batch_size, self._usual_batch, self.step, epoch_steps, self._highest)

    # The learning rate is scaled only during the step, so no schedule sees the factor.

    @property
    def rate_factor(self) -> float:
        """Factor of the learning rate for the batch size that Rota granted."""
        return self._ramp.at(self.step)

    def _scale_rate(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        factor = self.rate_factor
        if factor != 1.0:
            self._usual_rates = [group["lr"] for group in optimizer.param_groups]
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * factor

    def _restore_rate(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._usual_rates is not None:
            for group, rate in zip(optimizer.param_groups, self._usual_rates, strict=True):
                group["lr"] = rate
            self._usual_rates = None

    # State.

    def _save_state(self, folder: Path) -> None:
        if self.environment.rank == 0:
            common = {name: part.state_dict() for name, part in self._parts.items()}
            position = self._loader.state_dict() if self._loader is not None else self._position
            torch.save({"parts": common, "position": position, "ramp": tuple(self._ramp)}, folder / COMMON)
        self.save_random(folder)

    def _load_state(self, folder: Path) -> None:
        common = read_tensors(folder.parent / "rank-0" / COMMON)
        if set(common["parts"]) != set(self._parts):
            raise CheckpointError(
                f"The checkpoint in {folder.parent} holds {_names(common['parts'])}, and the script has {_names(self._parts)}.",
                hint="give the session the same parts as when it saved, or use another folder",
            )
        for name, part in self._parts.items():
            part.load_state_dict(common["parts"][name])
        if self._optimizer is not None:
            self._optimizer._opt_called = True  # it was, in an earlier attempt; else a schedule that steps first now would warn
        self._position, self._ramp = common["position"], RateRamp(*common["ramp"])
        if self.environment.rank == 0 or folder.name != "rank-0":
            self.load_random(folder)
        else:  # there were fewer ranks when this was saved
            torch.manual_seed(self._seed + self.environment.rank)


def session(
    model: Any,
    optimizer: Any = None,
    scheduler: Any = None,
    *,
    others: Mapping[str, Any] | None = None,
    seed: int = 0,
    steps: int | None = None,
    highest_rate_factor: float = HIGHEST_FACTOR,
    folder: str | os.PathLike[str] | None = None,
    every_seconds: float | None = SAVE_EVERY_SECONDS,
    keep: int = KEEP_CHECKPOINTS,
) -> TorchSession:
    """Return a session for a `with` statement.

    `others`: further objects with a state, by name, such as a gradient scaler; `seed`: seed of the order of the data only;
    `highest_rate_factor`: largest factor of the learning rate for a larger batch. The rest is as in `rota.train.session`.
    """
    return TorchSession(
        model,
        optimizer,
        scheduler,
        others=others,
        seed=seed,
        steps=steps,
        highest_rate_factor=highest_rate_factor,
        folder=folder,
        every_seconds=every_seconds,
        keep=keep,
    )


def _unwrapped(model: Any) -> Any:
    """Return the model without its data parallel wrapper: a later run may have another number of ranks."""
    parallel = torch.nn.parallel
    return model.module if isinstance(model, (parallel.DistributedDataParallel, parallel.DataParallel)) else model


def _names(parts: Mapping[str, Any]) -> str:
    return ", ".join(sorted(parts))
