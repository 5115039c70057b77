"""Published numbers of steps to the same result at each batch size, from which statistical efficiency is known without any file.

Pollux (Qiao et al., OSDI'21) trained six applications at several batch sizes. Any other model counts as the closest of these: an
image model on CIFAR-10 as `cifar10`, one on ImageNet as `imagenet`, BERT on any task as `bert`.
"""

import math
from collections.abc import Mapping

import numpy as np

from rota.beliefs.efficiency import Efficiency

STEPS: Mapping[str, Mapping[int, int]] = {
    "bert": {12: 14_774, 24: 7_427, 48: 3_732, 96: 1_885, 192: 940, 384: 480},
    "cifar10": {128: 39_062, 256: 20_377, 512: 10_615, 1024: 5_722, 2048: 3_178, 4096: 2_011},
    "deepspeech2": {20: 28_536, 40: 14_711, 80: 7_683, 160: 4_041, 320: 2_264, 640: 1_423},
    "imagenet": {200: 576_525, 400: 292_995, 800: 150_231, 1600: 78_453, 3200: 42_123, 6400: 23_972, 12_800: 14_461},
    "ncf": {
        256: 194_174,
        512: 97_094,
        1024: 48_625,
        2048: 24_308,
        4096: 12_172,
        8192: 6_122,
        16_384: 3_069,
        32_768: 1_548,
    },
    "yolov3": {8: 103_444, 16: 52_905, 32: 27_430, 64: 14_577, 128: 8_075, 256: 4_809, 512: 3_143},
}
"""Application -> batch size -> `iteration` in the last row of its validation curve, in the artifact of Pollux (adaptdl)."""


LIKE: Mapping[str, str] = {
    "resnet18": "cifar10",
    "resnet50-cifar": "cifar10",
    "elasticflow/resnet50_cifar10": "cifar10",
    "resnet50": "imagenet",
    "resnet50-amp": "imagenet",
    "vgg16": "imagenet",
    "inception3": "imagenet",
    "alexnet": "imagenet",
    "googlenet": "imagenet",
    "bert-cola": "bert",
    "ones/alexnet": "imagenet",
    "ones/resnet50": "imagenet",
    "ones/vgg16": "imagenet",
    "ones/inception3": "imagenet",
    "ones/resnet18-cifar": "cifar10",
    "ones/googlenet-cifar": "cifar10",
    "ones/vgg16-cifar": "cifar10",
    "ones/bert-sst2": "bert",
    "ones/bert-cola": "bert",
    "ones/bert-mrpc": "bert",
    "elasticflow/bert": "bert",
    "elasticflow/deepspeech2": "deepspeech2",
    "deepspeech2-libri": "deepspeech2",
}
"""Models without a curve of their own -> the application whose curve they get."""


def steps_to_end(application: str, batch_size: int) -> float:
    """Return the number of steps until the last epoch, a whole number."""
    known = STEPS[application]
    if batch_size in known:
        return float(known[batch_size])
    smallest = min(known)
    if batch_size < smallest:
        return float(round(known[smallest] * smallest / batch_size))
    sizes = sorted(known)
    at = np.interp(math.log(batch_size), np.log(sizes), np.log([known[size] for size in sizes]))
    return float(round(math.exp(at)))


def published_efficiency() -> Efficiency:
    """Return the efficiency of all applications, and of the models that are like them."""
    return Efficiency(curves={**STEPS, **{model: STEPS[like] for model, like in LIKE.items()}})
