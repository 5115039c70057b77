"""Generated traces, and the names of built-in traces.

Synthetic jobs look like those of Philly (Jeon et al., ATC'19): most request one GPU, the typical one runs for a quarter of an
hour, and a few run for days and make up most of the work. Tenants and a rhythm of day and night are optional. The same settings
always give the same trace.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from rota.errors import TraceError
from rota.files.csv_table import MAX_COUNT, closest, shown
from rota.files.inputs import input_exists, input_is_folder
from rota.model.job import Arrival, JobSpec
from rota.traces import gandiva_jobs, gavel_jobs, ones_jobs, sia_jobs, tiresias_jobs
from rota.traces.generator_settings import NumberSetting, Setting, check_settings, format_settings, read_settings
from rota.traces.read_trace import AUTO, check_format, read_trace
from rota.traces.shaping import MODELS, by_day, owners, trained
from rota.traces.trace import Trace

BUILT_IN: Mapping[str, str] = {
    "demo": "synthetic:jobs=200,seed=7,load=0.65,gpus=24,largest=8,longest_seconds=21600,tenants=4,models=12",
    "race": "synthetic:jobs=100,seed=7,load=0.65,gpus=24,largest=8,median_seconds=300,longest_seconds=7200,tenants=4,models=12",
    "philly-like": "synthetic:jobs=480,seed=0,load=0.6,gpus=24,largest=8,tenants=6,rhythm=0.5,models=12",
}
"""Names of traces that need no file, and what they stand for."""

_EXAMPLE = "synthetic:jobs=500,seed=1,load=0.8"
_SIZES = np.array([1, 2, 4, 8, 16])
_SIZE_WEIGHTS = np.array([0.70, 0.10, 0.13, 0.05, 0.02])
_LOG_SPREAD = 2.0
"""Standard deviation of the logarithm of the duration: one job in a hundred takes a hundred times the median."""

_NAME = re.compile(r"[A-Za-z][\w-]*(:.*)?", re.DOTALL)


_SETTINGS: Mapping[str, Setting] = {
    "jobs": NumberSetting(1, MAX_COUNT),
    "seed": NumberSetting(0, 10**18),
    "load": NumberSetting(0.001, 1000, whole=False),
    "gpus": NumberSetting(1, MAX_COUNT),
    "largest": NumberSetting(1, MAX_COUNT),
    "median_seconds": NumberSetting(1, 1e9, whole=False),
    "longest_seconds": NumberSetting(1, 1e9, whole=False),
    "tenants": NumberSetting(0, MAX_COUNT),
    "rhythm": NumberSetting(0, 1, whole=False),
    "models": NumberSetting(0, len(MODELS)),
}


GENERATED: Mapping[str, tuple[Mapping[str, Setting], str]] = {
    "synthetic": (_SETTINGS, _EXAMPLE),
    "gavel": (gavel_jobs.SETTINGS, gavel_jobs.EXAMPLE),
    "gandiva": (gandiva_jobs.SETTINGS, gandiva_jobs.EXAMPLE),
    "ones": (ones_jobs.SETTINGS, ones_jobs.EXAMPLE),
    "sia": (sia_jobs.SETTINGS, sia_jobs.EXAMPLE),
    "tiresias": (tiresias_jobs.SETTINGS, tiresias_jobs.EXAMPLE),
}
"""Names of traces that are generated from settings; their settings, and an example."""

_OF_PAPERS: Mapping[str, Callable[[str], Trace]] = {
    "gavel": gavel_jobs.named_gavel,
    "gandiva": gandiva_jobs.named_gandiva,
    "ones": ones_jobs.named_ones,
    "sia": sia_jobs.named_sia,
    "tiresias": tiresias_jobs.named_tiresias,
}
"""Generators of jobs as in papers, each in its own file."""


def synthetic(
    jobs: int = 200,
    seed: int = 0,
    *,
    load: float = 0.9,
    gpus: int = 24,
    largest: int = 8,
    median_seconds: float = 900.0,
    longest_seconds: float = 4 * 86_400.0,
    tenants: int = 0,
    rhythm: float = 0.0,
    models: int = 0,
) -> Trace:
    """Return a Philly-like trace for a cluster of `gpus` GPUs. No job requests more than `largest` GPUs.

    `load` is met exactly: the requested GPU-seconds divided by the GPU-seconds available between the first submission and the
    last. A single job has no such span and arrives at 0. The jobs belong to `tenants` of unequal weight, `tenant-1` the largest;
    0 means to none. `rhythm` is how much day and night differ, from 0 for not at all to 1 for nights without arrivals. With
    `models`, each job trains one of this many real models of the built-in catalogue, and its run time is the one on V100s.
    `rota.traces.shaping` has all three.
    """
    given = {
        "jobs": jobs,
        "seed": seed,
        "load": load,
        "gpus": gpus,
        "largest": largest,
        "median_seconds": median_seconds,
        "longest_seconds": longest_seconds,
        "tenants": tenants,
        "rhythm": rhythm,
        "models": models,
    }
    check_settings("synthetic", given, _SETTINGS, _EXAMPLE)
    draw = np.random.Generator(np.random.Philox(key=seed))
    allowed = min(largest, gpus) >= _SIZES
    sizes = draw.choice(_SIZES[allowed], size=jobs, p=_SIZE_WEIGHTS[allowed] / _SIZE_WEIGHTS[allowed].sum())
    lengths = np.exp(np.log(median_seconds) + _LOG_SPREAD * draw.standard_normal(jobs))
    seconds = np.clip(np.rint(lengths), 1.0, longest_seconds)
    submitted_s = np.zeros(jobs)
    if jobs > 1:
        # Gaps are drawn freely and then stretched together, so that chance cannot move the load.
        np.cumsum(draw.standard_exponential(jobs - 1), out=submitted_s[1:])
        submitted_s *= float(sizes @ seconds) / (gpus * load) / submitted_s[-1]
        if rhythm:
            submitted_s = by_day(submitted_s, rhythm)
    owned = owners(jobs, tenants, seed) if tenants else [("", "")] * jobs
    work = trained(sizes, seconds, models, seed) if models else [("", length) for length in seconds.tolist()]
    drawn = zip(submitted_s.tolist(), sizes.tolist(), work, owned, strict=True)
    arrivals = tuple(
        Arrival(at_s, JobSpec(name=f"job-{i}", gpus=size, steps=steps, profile=profile, tenant=tenant, user=user))
        for i, (at_s, size, (profile, steps), (tenant, user)) in enumerate(drawn, 1)
    )
    name = ",".join(f"{key}={value}" for key, value in given.items() if value or key not in ("tenants", "rhythm", "models"))
    return Trace(f"synthetic:{name}", "synthetic", arrivals)


def named(text: str) -> Trace:
    """Return the trace of a built-in name, of `synthetic:jobs=500,seed=1,load=0.8`, or of another generator with its settings."""
    if text in BUILT_IN:
        return replace(named(BUILT_IN[text]), name=text)
    name = text.partition(":")[0]
    if name in _OF_PAPERS:
        return replace(_OF_PAPERS[name](text), name=text)
    if name != "synthetic":
        known = (*BUILT_IN, *(example for _, example in GENERATED.values()))
        raise TraceError(
            f"no trace has this name.{closest(name, known)} All: {', '.join(known)}, or a path.",
            field="trace",
            value=shown(text),
            hint="--trace demo",
        )
    return replace(synthetic(**read_settings(text, _SETTINGS, _EXAMPLE)), name=text)


def open_trace(text: Path | str, *, format: str = AUTO, where: Sequence[tuple[str, str]] = ()) -> Trace:
    """Return a trace by path or by name. A file that exists takes precedence over a built-in name."""
    if isinstance(text, Path) or not _NAME.fullmatch(text) or _is_path(text):
        return read_trace(text, format=format, where=where)
    check_format(format)
    trace = named(text)
    if format != AUTO:
        raise TraceError(f"{text!r} is generated, not read.", field="format", value=format, hint="leave the format out")
    if where:
        raise TraceError(
            f"{text!r} is generated and has no columns to filter by.",
            field="where",
            value=shown("=".join(where[0])),
            hint="leave the filter out, or write the trace to a file first",
        )
    return trace


def reseeded(trace: Path | str, extra: int) -> Path | str:
    """Return the name of the same trace with a seed that is `extra` higher. A file has no seed and stays what it is."""
    text = str(trace)
    if not extra or isinstance(trace, Path) or not _NAME.fullmatch(text) or _is_path(text):
        return trace
    whole = BUILT_IN.get(text, text)
    name = whole.partition(":")[0]
    if name not in GENERATED:
        return trace
    settings = read_settings(whole, *GENERATED[name])
    return f"{name}:{format_settings({**settings, 'seed': settings.get('seed', 0) + extra})}"


def _is_path(text: str) -> bool:
    """Whether something exists under this path. A folder with the name of a built-in trace does not count."""
    try:
        return input_exists(text) and not (text in BUILT_IN and input_is_folder(text))
    except OSError:
        return False
