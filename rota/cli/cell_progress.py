"""What `rota sweep` and `rota reproduce` share: the progress line, cells on Ray, and the message after Ctrl-C."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from rota.cli import common_flags as flag

if TYPE_CHECKING:
    from rota.ray.sweep_backend import RaySweepBackend


class CellProgress:
    """Progress of a run, and the backend of its cells."""

    def __init__(self, what: str, show: Callable[[str, int, int, float], None], ray: str | None, *, insecure: bool) -> None:
        self.done = self.total = 0
        self._what, self._show = what, show
        self._ray: RaySweepBackend | None = None

        def on_ray() -> "RaySweepBackend":
            from rota.ray.sweep_backend import RaySweepBackend

            self._ray = RaySweepBackend(str(ray), lambda text: note(f"{text}."), insecure=insecure)
            note(f"{what} run on {self._ray}.")
            return self._ray

        self.backend: Callable[[], RaySweepBackend] | None = on_ray if ray is not None else None
        """Function that connects to the Ray cluster; None if cells run on this machine."""

    def watch(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        self._show(f"{self._what} ({self._ray})" if self._ray is not None else self._what, done, total, 0.0)


@contextmanager
def cell_progress(what: str, folder: str, ray: str | None, *, insecure: bool) -> Iterator[CellProgress]:
    """Show the progress of a run in a folder. After Ctrl-C, print how much is kept, and exit."""
    with flag.progress_bars(1) as show:
        progress = CellProgress(what, show, ray, insecure=insecure)
        try:
            yield progress
        except KeyboardInterrupt:
            sys.stderr.write(
                f"Stopped: {progress.done} of {progress.total} {what} are kept in {folder}.\n"
                "Try: the same command again; it continues\n"
            )
            raise typer.Exit(130) from None


def note(text: str) -> None:
    sys.stderr.write(f"note: {text}\n")
