"""The GPUs of a job as text."""

from typing import Any

import numpy as np

from rota.model.cluster import Cluster


def format_placement(cluster: Cluster, gpus: "np.ndarray[Any, Any]") -> str:
    """Return the nodes and the GPUs on them, such as `n1:0-3`, or `n1:0,2 n2:1`."""
    found = []
    for node in sorted(set(cluster.gpu_node[gpus].tolist())):
        mine = sorted(int(g - cluster.node_first[node]) for g in gpus[cluster.gpu_node[gpus] == node].tolist())
        run = len(mine) > 1 and mine == list(range(mine[0], mine[-1] + 1))
        found.append(f"{cluster.nodes[node].name}:" + (f"{mine[0]}-{mine[-1]}" if run else ",".join(map(str, mine))))
    return " ".join(found)
