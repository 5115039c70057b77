"""A training loop that can be suspended between any two steps, and then continues as if it had not been.

    with train.session(save=save, load=load) as job:
        for epoch in job.epochs(10):
            for batch in job.steps(batches):
                loss = step(batch)
                job.log(loss=loss)

Under Rota, SIGTERM means that the GPUs are needed. All ranks then save after the same step and exit with code 75. Outside Rota no
signal is handled and nothing is written, unless a folder for checkpoints is given.
"""

import atexit
import contextlib
import gc
import io
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from itertools import chain, islice
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from rota.errors import CheckpointError, OptionError
from rota.train.agreement import Action, Announcement, OtherRank, RankZero, SingleRank
from rota.train.checkpoint import KEEP_CHECKPOINTS, Checkpoints, checkpoints_at
from rota.train.manifest import CompleteCheckpoint
from rota.train.progress import ProgressReporter, is_number
from rota.train.rank_environment import JobEnvironment, check_rank, place_for, read_rank_environment
from rota.train.rank_store import RankStore, shared_rank_store
from rota.train.size import SizeFile

EXIT_YIELDED = 75
"""Exit code of a job that has saved its state and can be resumed (EX_TEMPFAIL)."""
SAVE_EVERY_SECONDS = 600.0

_FILES = (io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper)
"""Files that buffer what is written to them."""

Batch = TypeVar("Batch")
SaveFunction = Callable[[Path], object]
"""Function that writes the state of this rank into its own empty folder."""
LoadFunction = Callable[[Path], object]
"""Function that reads what `save` wrote."""


class YieldExit(SystemExit):
    """Raised between two steps when the state is saved and the process should exit. It ends the script with exit code 75."""

    def __init__(self, step: int) -> None:
        super().__init__(EXIT_YIELDED)
        self.step = step


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written or read. Training continues without it."""


@runtime_checkable
class ResumableBatches(Protocol):
    """Batches that can start in the middle of a pass. Other batches are drawn and dropped up to that position."""

    def resume_at(self, epoch: int, offset: int) -> None:
        """Start the next pass in this epoch, after this many batches."""

    def steps_left(self, epoch: int, offset: int) -> int:
        """Return how many steps of this pass are left."""


class Session:
    """One run of a training loop. Use it in a `with` statement."""

    def __init__(
        self,
        save: SaveFunction | None = None,
        load: LoadFunction | None = None,
        *,
        steps: int | None = None,
        batch_size: int = 0,
        folder: str | os.PathLike[str] | None = None,
        every_seconds: float | None = SAVE_EVERY_SECONDS,
        keep: int = KEEP_CHECKPOINTS,
        framework_saves: bool = False,
        first_step: int = 0,
        environment: JobEnvironment | None = None,
    ) -> None:
        """`steps`: total number of steps, if it can't be counted; `folder`: path or URL for checkpoints, by default Rota's for
        this job; `every_seconds`: interval between regular saves, None for no regular saves; `keep`: number of checkpoints to
        keep; `framework_saves`: whether the caller uses `count`, saves by itself, and starts from `first_step`."""
        _check(save, load, steps, every_seconds, keep)
        if (save is None) != (load is None):
            missing = "load" if load is None else "save"
            raise OptionError("is missing: save and load come together.", field=missing, hint="train.session(save=..., load=...)")
        self.environment = where = environment or read_rank_environment()
        self.step = first_step
        """Number of finished steps."""
        self.epoch = 0
        """Number of finished passes over the data."""
        self.batch_size = where.batch_size or batch_size
        """Examples per step over all ranks: what Rota grants, or what the script requests."""
        self.world_changed = False
        """Whether the checkpoint was written by another number of ranks."""
        self.resumed = False
        """Whether a checkpoint was loaded."""
        self._epochs = 0
        """Number of passes, if `epochs` was called with it."""
        self._offset = 0
        """Number of finished batches of this pass."""
        self._drawn_for = 0
        """Batch size at the last draw of batches."""
        self._calls = 0
        """Number of passes begun by this process."""
        self._save, self._load = save, load
        self._pending = Action()
        """Action that is due after the last step of a pass. It waits until the code after the inner loop has run."""
        self._entered = False
        """Whether the `with` block is active."""
        self._alone = not framework_saves
        """Whether no other session may be open. A framework that trains twice may leave one open."""
        self._handles_sigterm = where.under_rota and (save is not None or framework_saves)
        """Whether SIGTERM requests a save and an exit. A session that can't save is ended by SIGTERM."""
        self._fixed_total = steps
        self._total: float | None = steps
        self._metrics: dict[str, Any] = {}
        self._saved = 0.0
        self._work = float(first_step)
        """Finished steps in units of the usual batch size, as reported to Rota. A step with twice the batch counts twice."""
        self._step_work = 1.0
        """Work of one step, in steps of the usual batch size."""
        self._size = SizeFile(where.run_folder if where.world_size == 1 else None)
        self._stop_requested = False
        self._save_failed = False
        """Whether the last save failed and this was reported to Rota."""
        self._every_seconds = every_seconds
        self._save_s = float("inf")
        self._reporter = ProgressReporter(where.run_folder if where.rank == 0 else None)
        self._before: Any = None
        if self._handles_sigterm or (save is not None and folder is not None):
            check_rank(where)
        board = shared_rank_store(where) if self._handles_sigterm and where.world_size > 1 else None
        self._checkpoints = self._make_checkpoints(folder, keep, board)
        self._agreement: SingleRank | RankZero | OtherRank = SingleRank()
        if board is not None:
            self._agreement = RankZero(board) if where.rank == 0 else OtherRank(board)

    def _make_checkpoints(self, folder: str | os.PathLike[str] | None, keep: int, board: RankStore | None) -> Checkpoints | None:
        where = self.environment
        place = place_for(folder) if folder is not None else where.checkpoint_folder
        if self._save is None or (place is None and not where.under_rota):
            return None
        if place is None:
            raise OptionError("is not set, so there is no place for checkpoints.", field="ROTA_CHECKPOINT_DIR", hint="folder=...")
        if not where.under_rota and where.world_size > 1:
            if where.rank == 0:
                problem = f"Outside Rota {where.world_size} ranks have no checkpoints in {place}: they could not agree on a step."
                warnings.warn(CheckpointWarning(problem), stacklevel=4)
            return None
        ranks = {"rank": where.rank, "world_size": where.world_size}
        return checkpoints_at(place, board, attempt=where.attempt, **ranks, keep=keep)

    # Beginning and end.

    def __enter__(self) -> Self:
        if self._alone and _open.get() is not None:
            raise OptionError(
                "is inside the `with` block of another session: a script has one at a time.",
                field="session",
                hint="give both states to one session: save and load may write and read several files",
            )
        if self._handles_sigterm:
            if threading.current_thread() is not threading.main_thread():
                raise OptionError(
                    "is not in the main thread, which receives the signals.",
                    field="session",
                    hint="enter the session in the main thread",
                )
            self._before = signal.signal(signal.SIGTERM, self._request_stop)
        try:
            self._begin()
        except BaseException:
            self._restore_signal()
            raise
        self._entered = True
        if self._alone:
            _open.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._entered = False
        if _open.get() is self:
            _open.set(None)
        if kind is None:
            self._total = self._work
            self._report(sure=True)
        if kind is None or isinstance(error, YieldExit):
            self._let_end()
            if self._handles_sigterm and isinstance(error, YieldExit):
                atexit.register(_end_soon)
        else:
            self._restore_signal()

    def _begin(self) -> None:
        checkpoints = self._checkpoints
        found: CompleteCheckpoint | None = None
        if checkpoints is not None and checkpoints.rank == 0:
            found = checkpoints.newest()
            for torn in checkpoints.torn:
                warnings.warn(CheckpointWarning(f"{torn} The checkpoint before it is used."), stacklevel=4)
        start = found.folder.name if found is not None else ""
        step = found.step if found is not None else self.step
        first = self._agreement.begin(Announcement(step, start=start, written=checkpoints.written if checkpoints else 0))
        if checkpoints is not None and checkpoints.rank > 0:
            checkpoints.written = first.written
            found = checkpoints.named(first.start) if first.start else None
        if checkpoints is not None and found is not None:
            try:
                self._resume(found)
            finally:
                checkpoints.release(found)
        self._saved = self._work
        self._plan_save()
        self._report(saves=self._handles_sigterm, sure=True)
        self._reporter.hurry()  # the first step is reported at once

    def _resume(self, found: CompleteCheckpoint) -> None:
        facts = found.facts
        self.step, self.epoch, self._offset = found.step, int(facts["epoch"]), int(facts["offset"])
        self._work = float(facts["work"])
        self.world_changed = found.world_size != self.environment.world_size
        self.resumed = True
        if self._load is not None:
            self._load(found.rank_folder(self.environment.rank))

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        self._stop_requested = True

    def _let_end(self) -> None:
        """Ignore SIGTERM when everything is finished or saved. The script then only has to exit, and a signal that killed it
        would make Rota start it again. Child processes would inherit SIG_IGN, so it is set only when Python exits, which removes
        its own handlers long before the process ends."""
        if self._before is not None:
            signal.signal(signal.SIGTERM, _pass_over)
            atexit.register(signal.signal, signal.SIGTERM, signal.SIG_IGN)
            self._before = None

    def _restore_signal(self) -> None:
        if self._before is not None:
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGTERM, self._before)
            self._before = None

    @property
    def stop_requested(self) -> bool:
        """Whether Rota has requested the GPUs back. The loop will end after one of the next steps."""
        return self._stop_requested

    # The loop.

    def epochs(self, count: int) -> Iterator[int]:
        """Yield the numbers of the epochs below `count`, from the first unfinished one. The code after the inner loop runs once
        for each epoch: a job that is suspended at the last step of an epoch exits only after that code."""
        self._check_entered()
        self._epochs = count
        while self.epoch < count:
            epoch = self.epoch
            yield epoch
            if self.epoch == epoch:  # no pass over the data ended in it
                self._finish_pass()
            self._do_pending(over=self.epoch >= count)

    def _do_pending(self, *, over: bool) -> None:
        """Do what was due at the last step of a pass. After the last pass a job saves but does not exit with 75, because a
        resumed job would have nothing to do."""
        action, self._pending = self._pending, Action()
        if action.save:
            self._do(action._replace(leave=action.leave and not over))

    def steps(self, batches: Iterable[Batch], *, total: int | None = None) -> Iterator[Batch]:
        """Yield the batches of one pass, from the next one. Each is a step. `total`: number of steps in all passes."""
        self._check_entered()
        if not self._epochs and self._calls < self.epoch:
            self._calls += 1
            return  # this pass is finished
        self._calls += 1
        self._total = total or self._fixed_total or self._count_total(batches)
        if self._stop_requested and isinstance(self._agreement, SingleRank):
            self._do(self._agreement.at(self.step, stop=True, save=False))
        drawn: Iterator[Batch] | None = self._draw(batches)
        try:
            while drawn is not None:
                again = None
                for batch in drawn:
                    yield batch
                    self._offset += 1
                    self._step_done(batches)
                    if self._drawn_for != self.batch_size and isinstance(batches, ResumableBatches):
                        again = self._draw(batches)  # the rest of this pass has another batch size
                        break
                drawn = again
        except GeneratorExit:  # the loop was left by `break`
            self._finish_pass()
            raise
        self._finish_pass()

    def _step_done(self, batches: Iterable[Any]) -> None:
        """Count a step and do what is due. After the last step of an epoch that waits until `epochs` continues: the code after
        the inner loop belongs to the epoch, and must run once, with the variables that the loop has set."""
        action = self.count()
        if not action.save:
            return
        if self._epochs and self._left(batches) == 0:
            self._pending = action
        else:
            self._do(action)

    def _left(self, batches: Iterable[Any]) -> int | None:
        """Return the number of steps left of this pass; None if unknown."""
        if isinstance(batches, ResumableBatches):
            return batches.steps_left(self.epoch, self._offset)
        length = _length(batches)
        return None if length is None else max(length - self._offset, 0)

    def _finish_pass(self) -> None:
        self.epoch += 1
        self._offset = 0

    def _count_total(self, batches: Iterable[Any]) -> float | None:
        """Return the total number of steps; None if unknown."""
        length, left = _length(batches), self._left(batches)
        if length is None or left is None:
            return None
        return self._work + self._step_work * (left + length * max(self._epochs - self.epoch - 1, 0))

    def _draw(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Return an iterator at the next batch. Its data loading processes block SIGTERM, which is sent to the whole process
        group: they must keep running until this process has saved."""
        self._drawn_for = self.batch_size
        resumable = isinstance(batches, ResumableBatches)
        if isinstance(batches, ResumableBatches):
            batches.resume_at(self.epoch, self._offset)
        else:
            self._before_draw()
        self.shield(True)
        try:
            drawn = iter(batches)
            if not resumable:
                for _ in range(self._offset):
                    next(drawn, None)
                self._after_draw()
            # Many iterators start their processes at the first batch.
            return chain(list(islice(drawn, 1)), drawn)
        finally:
            self.shield(False)

    def _before_draw(self) -> None:
        """Prepare for drawing a pass from its beginning."""

    def _after_draw(self) -> None:
        """Continue after the batches up to the position of the session were drawn."""

    def shield(self, on: bool) -> None:
        """Block SIGTERM for child processes that are started while this is on. They inherit the signal mask."""
        if self._before is not None:
            signal.pthread_sigmask(signal.SIG_BLOCK if on else signal.SIG_UNBLOCK, {signal.SIGTERM})

    def step_done(self) -> None:
        """Count a step of a loop that does not use `steps`. Save and exit if that is due."""
        action = self.count()
        if action.save:
            self._do(action)

    def count(self) -> Action:
        """Count a step and return what is due, for frameworks that save by themselves."""
        self._check_entered()
        self.step += 1
        self._work += self._step_work
        now = time.monotonic()
        if now >= self._reporter.next_s:
            self._report()
            self._look_at_size()
        save = now >= self._save_s
        if not save and self.step < self._agreement.next_step and not self._stop_requested:
            return Action()
        return self._agreement.at(self.step, stop=self._stop_requested, save=save)

    def _check_entered(self) -> None:
        if not self._entered:
            raise OptionError(
                "is used outside its `with` block, so nothing would be saved.",
                field="session",
                hint="with train.session(save=..., load=...) as job: and the loop inside it",
            )

    def _look_at_size(self) -> None:
        size = self._size.look()
        if size and size != self.batch_size:
            self.batch_size = size
            self._resize()

    def _resize(self) -> None:
        """Use another batch size that Rota has granted, from the next step on."""

    def log(self, **metrics: Any) -> None:
        """Report the latest loss or any other number. Tensors are read only when they are sent, about twice a second."""
        for name, value in metrics.items():
            self._metrics[name] = value.detach() if hasattr(value, "detach") else value

    # Saving.

    def _do(self, action: Action) -> None:
        if self._checkpoints is None or self._save is None:
            if action.leave:
                raise YieldExit(self.step)
            return
        try:
            self._checkpoints.write(self.step, self._facts(), self._save)
        except CheckpointError as error:
            self._report(saving_problem=error.message, sure=True)
            if action.leave:
                raise
            warnings.warn(CheckpointWarning(f"{error.message} Training continues."), stacklevel=2)
            self._save_failed = True
        except Exception as error:
            self._report(saving_problem=f"save raised {type(error).__name__}: {error}", sure=True)
            raise
        else:
            self.saved()
        if action.leave:
            raise YieldExit(self.step)
        self._plan_save()

    def saved(self) -> None:
        """Record that everything up to here is saved, for frameworks that save by themselves."""
        self._saved = self._work
        self._plan_save()
        self._report(saving_problem="" if self._save_failed else None, sure=True)
        self._save_failed = False

    def _plan_save(self) -> None:
        if self._every_seconds is not None and (self._checkpoints is not None or self._handles_sigterm):
            self._save_s = time.monotonic() + self._every_seconds

    def _facts(self) -> Mapping[str, Any]:
        return {"epoch": self.epoch, "offset": self._offset, "work": self._work}

    def _report(self, *, saves: bool | None = None, saving_problem: str | None = None, sure: bool = False) -> None:
        self._reporter.send(
            self._work,
            total=self._total,
            saved=self._saved,
            metrics=self._metrics,
            saves=saves,
            saving_problem=saving_problem,
            sure=sure,
        )


_open: ContextVar[Session | None] = ContextVar("session", default=None)
"""Session whose `with` block is active."""


def _length(batches: Iterable[Any]) -> int | None:
    try:
        return len(batches)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):
        return None


def _check(save: object, load: object, steps: object, every_seconds: object, keep: object) -> None:
    """Raise if an argument can only be a mistake."""
    for name, function in (("save", save), ("load", load)):
        if function is not None and not callable(function):
            hint = f"a function of a folder: def {name}(folder): ..."
            raise OptionError("is not a function.", field=name, value=function, hint=hint)
    if every_seconds is not None and (not is_number(every_seconds) or not float(every_seconds) >= 0):  # type: ignore[arg-type]
        hint = "every_seconds=600, or every_seconds=None for no regular saves"
        raise OptionError("is not a time in seconds.", field="every_seconds", value=every_seconds, hint=hint)
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
        raise OptionError("is not a whole number of at least 1.", field="keep", value=keep, hint=f"keep={KEEP_CHECKPOINTS}")
    if steps is not None and (not is_number(steps) or not float(steps) >= 0):  # type: ignore[arg-type]
        raise OptionError("is not a number of steps.", field="steps", value=steps, hint="steps=1000, or leave it out")


def _end_soon() -> None:
    """Make Python exit faster. It collects garbage several times before it exits, which takes most of a second with PyTorch,
    while another job waits for the GPUs. The state is saved, so that can be left out. Open files are flushed here, which Python
    would have done as well."""
    for each in gc.get_objects():
        if issubclass(type(each), _FILES):
            with contextlib.suppress(OSError, ValueError):
                each.flush()
    gc.freeze()


def _pass_over(number: int, frame: FrameType | None) -> None:
    """Ignore a signal that comes too late to matter."""


def session(
    save: SaveFunction | None = None,
    load: LoadFunction | None = None,
    *,
    steps: int | None = None,
    batch_size: int = 0,
    folder: str | os.PathLike[str] | None = None,
    every_seconds: float | None = SAVE_EVERY_SECONDS,
    keep: int = KEEP_CHECKPOINTS,
) -> Session:
    """Return a session for a `with` statement. `save(folder)` writes the state into an empty folder; `load(folder)` reads it, and
    is called once at the beginning if there is a checkpoint. `folder`: a path or a URL for checkpoints, such as
    s3://BUCKET/FOLDER."""
    return Session(save, load, steps=steps, batch_size=batch_size, folder=folder, every_seconds=every_seconds, keep=keep)
