"""Elastic jobs in a simulation: the GPU counts and batch sizes that each job of a trace accepts."""

from collections import Counter
from dataclasses import replace
from functools import lru_cache

from rota.beliefs.efficiency import Efficiency
from rota.beliefs.rates import Rates, model_of
from rota.errors import UnknownNameError
from rota.model.job import Arrival, JobSpec
from rota.profiles.catalogue import read_key
from rota.traces.trace import Trace

ELASTIC_VALUES = ("none", "gpus", "batch")
"""Values of --elastic: no other sizes; other GPU counts at the requested batch size; other batch sizes too."""

COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""GPU counts that an elastic job accepts besides the requested one, up to `MAX_MULTIPLE` times that."""
MAX_MULTIPLE = 4
"""Largest accepted GPU count, as a multiple of the requested one."""


def made_elastic(way: str, trace: Trace, rates: Rates, gpus: int) -> Trace:
    """Return the trace with the sizes that its jobs accept on a cluster with `gpus` GPUs. A job without a known scaling model
    keeps its size."""
    if way not in ELASTIC_VALUES:
        raise UnknownNameError("value of --elastic", way, ELASTIC_VALUES, hint="--elastic batch")
    made, unknown = [], Counter[str]()
    for _, spec in trace.arrivals:
        if way == "none":
            made.append(replace(spec, gpu_counts=(), batch_sizes=(), can_resize=False))
        elif spec.gpus < 1:
            made.append(spec)
        elif spec.profile is None or not rates.knows(spec.profile) or spec.profile.startswith("pal/"):
            made.append(spec)
            unknown[repr(spec.profile) if spec.profile else "no profile"] += 1
        else:
            made.append(_elastic(spec, way, rates, gpus))
    notes = trace.notes
    if unknown:
        names = ", ".join(name for name, _ in unknown.most_common(3))
        notes = (
            *notes,
            f"{unknown.total():,} of {len(made):,} jobs are not elastic, because how they scale is unknown ({names})",
        )
    arrivals = tuple(Arrival(arrival.submitted_s, spec) for arrival, spec in zip(trace.arrivals, made, strict=True))
    return replace(trace, arrivals=arrivals, notes=notes)


def same_sizes(one: Trace, other: Trace) -> bool:
    """Return whether the jobs of two traces accept the same sizes, and resize in the same way."""
    return one is other or all(
        a.spec.demand.sizes() == b.spec.demand.sizes() and a.spec.can_resize == b.spec.can_resize
        for a, b in zip(one.arrivals, other.arrivals, strict=True)
    )


def _elastic(spec: JobSpec, way: str, rates: Rates, gpus: int) -> JobSpec:
    counts = spec.gpu_counts or tuple(count for count in COUNTS if count <= min(MAX_MULTIPLE * spec.width, gpus))
    batch_size = spec.batch_size or _batch_size(spec.profile, spec.width)
    if not batch_size:
        return replace(spec, gpu_counts=counts, batch_sizes=(), can_resize=True)
    sizes = spec.batch_sizes or _sizes(model_of(spec.profile), batch_size, rates.efficiency)
    return replace(
        spec,
        profile=spec.profile if rates.measured(spec.profile) else f"{model_of(spec.profile)}/global{batch_size}",
        gpu_counts=counts,
        batch_size=batch_size,
        batch_sizes=sizes if way == "batch" else (),
        can_resize=True,
    )


@lru_cache(maxsize=4096)
def _batch_size(profile: str, width: int) -> int:
    """Return the batch size of the gang according to its profile; 0 if unknown."""
    reading = read_key(profile)
    if reading is None or reading.summed:
        return 0
    return reading.batch if reading.of_gang else reading.batch * width


def _sizes(model: str, batch_size: int, efficiency: Efficiency) -> tuple[int, ...]:
    """Return the batch sizes at which the model's efficiency was measured; empty if it was not."""
    return tuple(sorted({*efficiency.sizes(model), batch_size})) if efficiency.knows(model) else ()
