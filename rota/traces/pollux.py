"""The workloads of Pollux (Qiao et al., OSDI'21): `name,time,application,num_replicas,batch_size`.

`time` is seconds. A job has `num_replicas` GPUs and the profile `APPLICATION/globalB`, such as `cifar10/global2048`, B being
the batch size over all of them. The file does not say how long a job runs. Pollux trains each application to its last epoch,
and its validation curves say after how many steps that is, for each batch size they were taken at: `STEPS`.

At other batch sizes: between two of them the steps lie on a line, logarithm over logarithm, which is exact where the number of
examples stays the same; below the smallest, where every example counts in full, the examples are those of the smallest; above
the largest the steps are those of the largest, for Pollux found no use in more. The notes count such jobs.
"""

import math
from collections.abc import Iterator, Mapping

import numpy as np

from rota.files.rows import Row, closest
from rota.model.job import Arrival, JobSpec
from rota.traces.format import Format
from rota.traces.parts import filled

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


def steps_to_end(application: str, batch_size: int) -> float:
    """Steps until the last epoch; a whole number."""
    known = STEPS[application]
    if batch_size in known:
        return float(known[batch_size])
    smallest = min(known)
    if batch_size < smallest:
        return float(round(known[smallest] * smallest / batch_size))
    sizes = sorted(known)
    at = np.interp(math.log(batch_size), np.log(sizes), np.log([known[size] for size in sizes]))
    return float(round(math.exp(at)))


def arrival(row: Row) -> Arrival:
    application = row.text("application")
    if application not in STEPS:
        raise row.wrong(
            "application",
            f"Pollux trained no such application.{closest(application, STEPS)} All: {', '.join(STEPS)}.",
            hint="give other jobs in the rota format, with their steps",
        )
    batch_size = row.whole("batch_size", least=1)
    spec = JobSpec(
        name=filled(row, "name"),
        gpus=row.whole("num_replicas", least=1),
        steps=steps_to_end(application, batch_size),
        profile=f"{application}/global{batch_size}",
    )
    return Arrival(row.number("time"), spec)


def remarks(row: Row) -> Iterator[str]:
    if row.whole("batch_size", least=1) not in STEPS[row.text("application")]:
        yield "had a batch size that Pollux has no curve for; the steps are estimated from the nearest"


POLLUX = Format(
    "pollux",
    arrival,
    required=("name", "time", "application", "num_replicas", "batch_size"),
    unique="name",
    remarks=remarks,
)
