"""Small jobs of every sort, for chaos tests."""

import random
from typing import Any

from rota.model.job import JobSpec


def mixed_jobs(
    count: int, seed: int, widest: int, *, parking: bool = True, parts: bool = False, elastic: bool = False
) -> list[JobSpec]:
    """Return small jobs of several widths: with `parts` some request a fraction of a GPU, with `elastic` some accept several
    sizes. Some jobs fail after a few failures of their own; nothing else ends a job early."""
    dice = random.Random(seed)
    widths: list[float] = [width for width in (1, 1, 2, 3, 4, 6, 8) if width <= widest]
    if parts:
        widths += [0.5, 0.5, 0.25, 0.7]
    jobs: list[Any] = []
    for number in range(count):
        park = parking and dice.random() < 0.5
        sizes: dict[str, Any] = {}
        if elastic and dice.random() < 0.7:
            counts = tuple(width for width in (1, 2, 3, 4, 6, 8) if width <= widest)
            sizes["gpu_counts"] = tuple(dice.sample(counts, dice.randrange(1, len(counts) + 1)))
            sizes["can_resize"] = dice.random() < 0.7
            if dice.random() < 0.5:
                sizes["batch_size"], sizes["batch_sizes"] = 64, (32, 128)
        jobs.append(
            JobSpec(
                name=f"job-{number}",
                gpus=dice.choice([width for width in widths if width >= 1] if sizes else widths),
                **sizes,
                steps=float(dice.randrange(5, 90)),
                retries=dice.choice([2, 1_000_000]),
                can_park=park,
                parked_gib=4.0 if park else None,
            )
        )
    return jobs
