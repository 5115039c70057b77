"""Random states of PyTorch scripts, and a session that restores them.

A data loader may shuffle with the generator of the process, and seeds its workers from it. So two random states are saved: that
of the beginning of the pass over the data, and the current one. To continue in the middle of a pass, a session sets the first,
draws the batches up to its position, and sets the second.
"""

import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from rota.train.session import Session

RANDOM = "random.pt"


class ExactSession(Session):
    """A session that saves random states. A subclass saves and loads the rest."""

    _pass_began: dict[str, Any] | None = None
    _now: dict[str, Any] | None = None

    def save_random(self, folder: Path) -> None:
        torch.save({"now": random_state(), "pass_began": self._pass_began}, folder / RANDOM)

    def load_random(self, folder: Path) -> None:
        found = read_tensors(folder / RANDOM)
        self._pass_began = found["pass_began"]
        set_random_state(found["now"])

    def _before_draw(self) -> None:
        if self._offset == 0 or self._pass_began is None:
            self._pass_began = random_state()
        else:
            self._now = random_state()
            set_random_state(self._pass_began)

    def _after_draw(self) -> None:
        if self._now is not None:
            set_random_state(self._now)
            self._now = None


def random_state() -> dict[str, Any]:
    """Return the states of all global random generators that a script may use."""
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state_all()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, position, has_gauss, gauss = numpy.random.get_state()
        state["numpy"] = (str(name), [int(key) for key in keys], int(position), int(has_gauss), float(gauss))
    return state


def set_random_state(state: Mapping[str, Any]) -> None:
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
    if "numpy" in state:
        import numpy

        name, keys, position, has_gauss, gauss = state["numpy"]
        numpy.random.set_state((name, numpy.array(keys, dtype=numpy.uint32), position, has_gauss, gauss))


def read_tensors(path: Path) -> Any:
    """Read tensors and plain values without running code from the file."""
    return torch.load(path, map_location="cpu", weights_only=True)
