"""Each job has an exclusive 1/n of every pool. This is the baseline that sharing must beat."""

from dataclasses import dataclass

import numpy as np

from rota.model.allocation import Shares
from rota.model.units import MILLI
from rota.model.view import View
from rota.solver.sizes import usual_rows


@dataclass(frozen=True)
class Isolated:
    """An exclusive part of the cluster for each job, at its requested size. Ignores accelerator types."""

    def allocate(self, view: View) -> Shares:
        options, jobs = view.options, max(len(view.jobs), 1)
        gpus = options.milligpus / MILLI
        whole = view.capacity.sum() / jobs / gpus
        share = view.capacity[options.pool] / jobs / gpus / np.maximum(whole, 1.0)
        alone = usual_rows(options, view.capacity)
        return Shares(option=alone, share=share[alone], type_agnostic=True, key="private part")
