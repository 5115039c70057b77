"""The effective throughput of each job under given shares, whatever policy made them."""

import numpy as np

from rota.model.lazy import lazy
from rota.model.units import MILLI, Floats
from rota.model.view import View


class Effect:
    """Shares per job and share column of a view, and what they give at the estimated rates."""

    def __init__(self, view: View, share: Floats) -> None:
        self.view, self.share = view, share
        self._row = view.options.by_share_column[view.jobs.kind]

    @lazy
    def rate(self) -> Floats:
        """Steps per second of each job."""
        return self._sum(self.view.options.rate)

    @lazy
    def rate_per_dollar(self) -> Floats:
        """Steps per second divided by the price of the GPUs per hour, for each option, summed per job."""
        options, cluster = self.view.options, self.view.cluster
        price = np.array([cluster.price(pool) or 1.0 for pool in cluster.pools])
        return self._sum(options.rate / (price[options.pool] * options.milligpus / MILLI))

    @lazy
    def average_type_rate(self) -> Floats:
        """Steps per second of each job on a GPU of average type."""
        options = self.view.options
        part = (
            self.view.capacity[options.pool]
            / max(int(self.view.capacity.sum()), 1)
            * ((options.partner_kind < 0) & options.default_size)
        )
        return self._sum(options.rate * part, np.ones_like(self.share))

    @lazy
    def private_rate(self) -> Floats:
        """Steps per second of each job with an exclusive 1/n of every pool."""
        gpus, jobs = self.view.jobs.gpus, max(len(self.view.jobs), 1)
        whole = self.view.capacity.sum() / jobs / gpus
        rate: Floats = self.average_type_rate * self.view.capacity.sum() / jobs / gpus / np.maximum(whole, 1.0)
        return rate

    def _sum(self, per_option: Floats, share: Floats | None = None) -> Floats:
        values = np.append(per_option, 0.0)[self._row]
        total: Floats = (values * (self.share if share is None else share)).sum(axis=1)
        return total
