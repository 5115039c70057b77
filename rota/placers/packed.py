"""Packed: the fullest node that has room, so that large gangs find whole nodes; across nodes only if none has room."""

from dataclasses import dataclass

import numpy as np

from rota.model.floor import Floor
from rota.model.units import Ints
from rota.placers.base import ByNode


@dataclass(frozen=True)
class Packed(ByNode):
    """Best fit: fewest free GPUs first, lowest node number among equals."""

    def nodes_for(self, floor: Floor, free: Ints, nodes: Ints, gpus: int) -> tuple[Ints, Ints]:
        order = nodes[np.argsort(free[nodes], kind="stable")]
        return order, free[order] // gpus
