"""Spread: the emptiest node first, so that jobs share links, hosts and cooling with as few others as possible."""

from dataclasses import dataclass

import numpy as np

from rota.model.placement_view import PlacementView
from rota.model.units import Ints
from rota.placers.base import ByNode


@dataclass(frozen=True)
class Spread(ByNode):
    """Worst fit between jobs. A job that fits on one node still gets one node."""

    def nodes_for(self, view: PlacementView, free: Ints, nodes: Ints, gpus: int) -> tuple[Ints, Ints]:
        order = nodes[np.argsort(-free[nodes], kind="stable")]
        emptiest = order[free[order] == free[order[0]]]
        return emptiest, np.ones(len(emptiest), dtype=np.int64)
