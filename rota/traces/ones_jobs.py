"""Jobs like those with which ONES was evaluated (Bian et al., SC'21): short training runs of image and language models, one every
30 seconds.

The number of jobs of each model is the same for every seed; their arrival times, order and lengths differ. Every job is elastic:
it accepts several GPU counts up to four times the requested one, and batch sizes up to the ceiling of its learning rate.
`--elastic none` makes all jobs rigid.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rota.files.csv_table import MAX_COUNT
from rota.model.job import Arrival, JobSpec
from rota.profiles.ones_models import MODELS, OnesModel
from rota.traces.generator_settings import NumberSetting, Setting, check_settings, format_settings, read_settings
from rota.traces.shaping import dealt
from rota.traces.trace import Trace

EXAMPLE = "ones:jobs=400,seed=0"

SETTINGS: Mapping[str, Setting] = {
    "jobs": NumberSetting(1, MAX_COUNT),
    "seed": NumberSetting(0, 10**18),
    "gap_seconds": NumberSetting(0.001, 1e6, whole=False),
    "spread": NumberSetting(0, 3, whole=False),
    "largest": NumberSetting(1, MAX_COUNT),
}

COUNTS = (1, 2, 4, 8, 16, 32, 64)
"""GPU counts that jobs accept, up to MAX_TIMES times the requested count."""
MAX_TIMES = 4
TWICE = "bert-mrpc"
"""This model has twice as many jobs as other models with as much data."""


def ones_jobs(jobs: int = 400, seed: int = 0, *, gap_seconds: float = 30.0, spread: float = 0.2, largest: int = 64) -> Trace:
    """Return a trace of such jobs. `spread` is the standard deviation of the logarithm of their epochs. No job has more than
    `largest` GPUs."""
    given = {"jobs": jobs, "seed": seed, "gap_seconds": gap_seconds, "spread": spread, "largest": largest}
    check_settings("ones", given, SETTINGS, EXAMPLE)
    draw = np.random.Generator(np.random.Philox(key=seed))
    kinds = [(name, examples) for name, model in MODELS.items() for examples in model.epochs]
    which = draw.permutation(dealt([2.0 if name == TWICE else 1.0 for name, _ in kinds], jobs))
    at_s = np.concatenate(([0.0], np.cumsum(draw.exponential(gap_seconds, jobs - 1))))
    longer = np.exp(spread * draw.standard_normal(jobs))
    arrivals = []
    for number, (submitted_s, kind, times) in enumerate(zip(at_s.tolist(), which.tolist(), longer.tolist(), strict=True)):
        name, examples = kinds[kind]
        spec = job_of(name, MODELS[name], examples, times, largest)
        arrivals.append(Arrival(submitted_s, JobSpec(name=f"{name}-{number}", **spec)))
    return Trace(f"ones:{format_settings(given)}", "ones", tuple(arrivals))


def job_of(name: str, model: OnesModel, examples: int, longer: float, largest: int) -> dict[str, Any]:
    """Return the fields of the spec of a job of this model, with this number of examples in its data."""
    gpus = min(model.gpus, largest)
    batch_size = gpus * model.local_batch
    counts = [count for count in COUNTS if count <= min(MAX_TIMES * gpus, largest)]
    epoch_steps = examples / batch_size
    return {
        "gpus": gpus,
        "gpu_counts": tuple(counts),
        "batch_size": batch_size,
        "batch_sizes": tuple(count * model.local_batch for count in counts if count <= model.most_times),
        "can_resize": True,
        "steps": float(max(round(model.epochs[examples] * longer * epoch_steps), 1)),
        "epoch_steps": epoch_steps,
        "profile": f"ones/{name}/global{batch_size}",
    }


def named_ones(text: str) -> Trace:
    """Return the trace of `ones:jobs=400,seed=0`."""
    return ones_jobs(**read_settings(text, SETTINGS, EXAMPLE))
