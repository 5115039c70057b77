"""Models of ONES (Bian et al., SC'21), as `ones/NAME/globalB`: step times on nodes of four RTX 5000s.

The authors published examples per second of each model at one number of GPUs and one batch size (medians of the runs in their
artifact). The division of that time into computing and exchanging gradients is our assumption: a fraction `computed` of a step is
computing, of which a fifth does not depend on the batch; across nodes an exchange takes 2.5 times as long as within one, and 2%
longer for each GPU.
"""

from collections.abc import Mapping
from typing import NamedTuple

from rota.beliefs.step_time import StepTime


class OnesModel(NamedTuple):
    """Published numbers of a model, and assumptions."""

    gpus: int
    """GPUs that a job requests, as in the measurement."""
    local_batch: int
    """Examples on each GPU in the measurement."""
    examples_per_second: float
    computed: float
    """Assumed fraction of a step that is computing."""
    most_times: int
    """Largest batch on each GPU, as a multiple of `local_batch`: the ceiling of the learning rate."""
    epochs: Mapping[int, float]
    """Examples in the job's data -> epochs until it stops."""


MODELS: Mapping[str, OnesModel] = {
    "alexnet": OnesModel(16, 64, 3410.0, 0.45, 16, {20_000: 69.0, 10_000: 21.0}),
    "resnet50": OnesModel(16, 32, 1974.0, 0.75, 16, {20_000: 44.0, 10_000: 27.0}),
    "vgg16": OnesModel(16, 32, 1138.0, 0.45, 16, {20_000: 58.0, 10_000: 11.0}),
    "inception3": OnesModel(16, 32, 1611.0, 0.75, 16, {20_000: 52.0, 10_000: 50.0}),
    "resnet18-cifar": OnesModel(4, 256, 16176.0, 0.9, 16, {40_000: 25.0, 20_000: 38.0}),
    "googlenet-cifar": OnesModel(4, 256, 11455.0, 0.82, 16, {40_000: 23.0, 20_000: 36.0}),
    "vgg16-cifar": OnesModel(4, 128, 2819.0, 0.7, 16, {40_000: 36.0, 20_000: 67.0}),
    "bert-sst2": OnesModel(8, 32, 430.0, 0.6, 8, {20_000: 5.0, 10_000: 5.0}),
    "bert-cola": OnesModel(2, 16, 102.0, 0.85, 4, {8_000: 5.0, 5_000: 6.0}),
    "bert-mrpc": OnesModel(2, 16, 102.0, 0.85, 4, {3_600: 6.0}),
}

NODE = 4
"""GPUs of a node."""
FIXED = 0.2
APART = 2.5
EACH_MORE = 0.02
ACCELERATOR = "RTX5000"


def step_time(model: OnesModel) -> StepTime:
    """Return a model with which a step takes as long as in the measurement."""
    seconds = model.gpus * model.local_batch / model.examples_per_second
    computing, exchanging = seconds * model.computed, seconds * (1 - model.computed)
    first = exchanging / (1 + EACH_MORE * (model.gpus - 2))
    between = first if model.gpus > NODE else first * APART
    return StepTime(
        compute=FIXED * computing,
        per_example=(1 - FIXED) * computing / model.local_batch,
        inside=between / APART,
        inside_more=EACH_MORE * between / APART,
        between=between,
        between_more=EACH_MORE * between,
        overlap=1.0,
        most_local=float(model.local_batch),
    )


STEP_TIMES: Mapping[str, StepTime] = {name: step_time(model) for name, model in MODELS.items()}
