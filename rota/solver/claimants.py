"""Claimants: the groups of jobs that get shares. Jobs that a policy cannot distinguish are one claimant, which is exact and keeps
programs small."""

import numpy as np

from rota.model.units import MILLI, Ints
from rota.model.view import View


class Claimants:
    """Groups of jobs that a policy cannot distinguish. Jobs without an option that fits now are left out."""

    def __init__(self, view: View, by_job: bool, by_weight: bool, apart: Ints | None) -> None:
        jobs, options = view.jobs, view.options
        runnable = options.milligpus <= view.capacity[options.pool] * MILLI
        kind_runs = np.bincount(options.kind[runnable & (options.partner_kind < 0)], minlength=len(options.by_kind)) > 0
        self.position = kind_runs[jobs.kind].nonzero()[0] if len(jobs) else np.empty(0, dtype=np.int64)
        kind = jobs.kind[self.position]
        self.by_kind = not by_job and apart is None
        if by_job:
            self.of = np.arange(len(kind))
        else:
            keys = [kind.astype(np.int64)]
            if by_weight and len(kind) and np.ptp(jobs.weight[self.position]) > 0:
                keys.append(np.unique(jobs.weight[self.position], return_inverse=True)[1])
            if apart is not None:
                keys.append(apart[self.position])
            self.by_kind = len(keys) == 1
            self.of = _numbered(keys)
        self.count = int(self.of.max()) + 1 if len(self.of) else 0
        first = np.full(self.count, len(kind), dtype=np.int64)
        first[self.of[::-1]] = np.arange(len(kind))[::-1]
        self.first = self.position[first]
        """Position of one job of each claimant."""
        self.members = np.bincount(self.of, minlength=self.count).astype(float)
        self.kind = jobs.kind[self.first]
        self.gpus = jobs.gpus[self.first].astype(float)
        self.weight = jobs.weight[self.first]
        self.runnable = runnable


def _numbered(keys: list[Ints]) -> Ints:
    """Number the combinations of keys, from 0."""
    key = keys[0]
    for more in keys[1:]:
        key = key * (int(more.max(initial=0)) + 1) + more
    if not len(key):
        return key
    seen = np.bincount(key) > 0 if int(key.max()) < 4 * len(key) + 1024 else None
    if seen is None:
        return np.unique(key, return_inverse=True)[1]
    return (np.cumsum(seen) - 1)[key]
