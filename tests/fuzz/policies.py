"""Policies for the fuzz only: they answer with an assignment and choose their own GPUs."""

import numpy as np

from rota.model.allocation import Assignment
from rota.model.needs import Needs
from rota.model.view import View, keyed_rng


class Hinted:
    """Jobs in an order of chance, each by a chance option of its own; every other one asks for certain GPUs."""

    needs = Needs()

    def allocate(self, view: View) -> Assignment:
        rng = keyed_rng(view.seed, view.decision, 31)
        position = rng.permutation(len(view.jobs))
        option = np.empty(len(position), dtype=np.int64)
        wishes: dict[int, tuple[int, ...]] = {}
        for number, job in enumerate(position.tolist()):
            options = view.options.by_kind[view.jobs.kind[job]]
            option[number] = rng.choice(options[options >= 0])
            pool, need = int(view.options.pool[option[number]]), int(view.options.gpus[option[number]])
            if rng.random() < 0.5:
                here = np.flatnonzero(view.cluster.gpu_pool == pool)
                wishes[job] = tuple(rng.choice(here, need, replace=False).tolist())
        return Assignment(position=position, option=option, gpus=wishes, until_s=view.now_s + 50.0)


class HintedUnits(Hinted):
    """The same where GPUs may be shared: the options are those of a job alone, but partners may still be on their way out."""

    needs = Needs(colocation=True)
