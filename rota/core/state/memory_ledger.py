"""The memory ledger: GPU memory and host memory that parked jobs have reserved, and which jobs fit beside them."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from rota.core.state.job_table import NO_JOB
from rota.core.state.records import Attempt
from rota.model.units import Ints

if TYPE_CHECKING:
    from rota.core.state.state import State


class MemoryLedger:
    """The only writer of the reserved memory of a state: `nodes.host_gib`, `nodes.context_gib`, `jobs.largest_gib` and the
    reservation of each attempt."""

    __slots__ = ("state",)

    def __init__(self, state: "State") -> None:
        self.state = state

    def gpu_gib_of(self, job: int) -> float:
        """Return the peak memory of a job on each GPU, in GiB: as its spec states, or as it was measured; 0 if unknown."""
        return self.state.jobs.specs[job].gpu_gib or self._seen_gib(job)

    def gib_per_node(self, job: int, attempt: Attempt) -> float:
        """Return the host memory, in GiB, that a job takes on each node while it is parked: what it took before, or what its spec
        states. Otherwise all that it has on its GPUs may have to go there. 0 if nothing is known."""
        if attempt.kept_gib:
            return attempt.kept_gib
        spec = self.state.jobs.specs[job]
        host_gib = None if spec.parked_gib is None and spec.least_gib is None else spec.host_gib
        if host_gib is None:
            host_gib = max(self._seen_gib(job), spec.gpu_gib or 0.0) * len(attempt.gpus)
        return host_gib / len(self.state.nodes.nodes_of(attempt.gpus))

    def _seen_gib(self, job: int) -> float:
        seen_gib = self.state.jobs.table.peak_gib.item(self.state.jobs.row[job])
        return seen_gib if seen_gib == seen_gib else 0.0

    def fits(self, job: int, gpus: Ints, partner: int = NO_JOB, *, partner_comes: bool = False) -> bool:
        """Return whether a job fits on these GPUs with its partner, which is there or comes now, and with what parked jobs keep
        there. A job that is too large for the GPUs anyway is let through, and so are two jobs whose rates together are known."""
        nodes = self.state.nodes
        if partner == NO_JOB and "can_park" not in self.state.jobs.table.in_use:
            return True  # no job was ever parked
        if partner == NO_JOB and not nodes.context_gib[gpus].any():
            return True
        gpu_gib = self.gpu_gib_of(job)
        if not gpu_gib:
            return True
        attempt = self.state.jobs.attempts.get(job)
        own_gib = self.state.beliefs.costs.memory.context_gib if attempt is not None and attempt.host_memory_reserved else 0.0
        taken_gib = nodes.context_gib[gpus] - own_gib
        if self.state.beliefs.sharing and (partner_comes or partner in nodes.observed.holders(gpus)):
            taken_gib = taken_gib + self.gpu_gib_of(partner)
        fits = gpu_gib + taken_gib <= nodes.gpu_gib[gpus] + 1e-9
        return bool(fits.all() or (gpu_gib > nodes.gpu_gib[gpus]).any())

    def crowded(self, gpus: Ints, more_gib: float = 0.0) -> bool:
        """Return whether what parked jobs keep on these GPUs, and `more_gib`, leaves too little for the largest job."""
        kept_gib = self.state.nodes.context_gib[gpus] + more_gib
        largest = self.state.jobs.largest_gib.get(self.state.nodes.cluster.gpu_pool.item(gpus.item(0)), 0.0)
        return bool(((kept_gib > 0) & (kept_gib + largest > self.state.nodes.gpu_gib[gpus])).any())

    def note_need(self, kind: int, gib: float) -> None:
        """Note that a job needs this much memory on GPUs of the pools on which it can run: parked jobs must leave that."""
        options, nodes, largest = self.state.beliefs.options, self.state.nodes, self.state.jobs.largest_gib
        rows = options.of_kind[kind]
        grew = set()
        for pool in set(options.pool[rows[rows >= 0]].tolist()):
            there_gib = nodes.gpu_gib[nodes.cluster.gpu_pool == pool].max(initial=0.0)
            if largest.get(pool, 0.0) < gib <= there_gib:
                largest[pool] = gib
                grew.add(pool)
        if grew:
            pool_of = nodes.cluster.gpu_pool
            for job, each in self.state.jobs.attempts.items():
                if each.parked and pool_of.item(each.gpus.item(0)) in grew:
                    self.state.requeue(job)

    def reserve(self, job: int, attempt: Attempt) -> Attempt:
        """Reserve memory for a job that parks: on its hosts, and what its processes keep on its GPUs."""
        self._keep_context(attempt, attempt.live_nodes, self.state.beliefs.costs.memory.context_gib)
        return replace(self._set_aside(attempt, self.gib_per_node(job, attempt)), host_memory_reserved=True)

    def note_parked(self, attempt: Attempt, gib: float, keeps: bool) -> Attempt:
        """Note how much host memory a job took when it was parked, over all its nodes. `keeps`: it has that until it ends."""
        host_gib = max(gib / len(self.state.nodes.nodes_of(attempt.gpus)), attempt.kept_gib)
        return replace(self._set_aside(attempt, host_gib), kept_gib=host_gib if keeps else attempt.kept_gib)

    def unreserve(self, attempt: Attempt) -> Attempt:
        """Give up the reservation of a job that runs again, except for the host memory that it keeps."""
        self._keep_context(attempt, attempt.live_nodes, -self.state.beliefs.costs.memory.context_gib)
        return replace(self._set_aside(attempt, attempt.kept_gib), host_memory_reserved=False)

    def free(self, attempt: Attempt, nodes: tuple[int, ...]) -> None:
        """Give up what an attempt has reserved on these nodes: its processes there are gone."""
        if attempt.host_gib:
            self.state.nodes.host_gib[list(nodes)] += attempt.host_gib
        if attempt.host_memory_reserved:
            self._keep_context(attempt, nodes, -self.state.beliefs.costs.memory.context_gib)

    def set_context(self, gib: float) -> None:
        """Set how much of its GPU a parked process is believed to keep, in GiB."""
        for attempt in self.state.jobs.attempts.values():
            if attempt.host_memory_reserved:
                self._keep_context(attempt, attempt.live_nodes, gib - self.state.beliefs.costs.memory.context_gib)

    def _set_aside(self, attempt: Attempt, host_gib: float) -> Attempt:
        """Reserve this much host memory on each node of an attempt, instead of what it had reserved there."""
        self.state.nodes.host_gib[list(attempt.live_nodes)] -= host_gib - attempt.host_gib
        return replace(attempt, host_gib=host_gib)

    def _keep_context(self, attempt: Attempt, nodes: tuple[int, ...], gib: float) -> None:
        if gib:
            gpus = attempt.gpus[np.isin(self.state.nodes.cluster.gpu_node[attempt.gpus], nodes)]
            self.state.nodes.context_gib[gpus] += gib
