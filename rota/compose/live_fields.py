"""Fields of a study that a live scheduler takes too, under the same names, and why it does not take the others.

A new field of `Study` goes into one of the two. A test compares them with the class.
"""

from collections.abc import Mapping

LIVE = (
    "policy",
    "placer",
    "decide",
    "round_seconds",
    "min_run_factor",
    "wait_for_locality",
    "tactics",
    "tenants",
    "profile",
    "spread_penalty",
    "tensors",
    "variability",
    "variability_medians",
    "cordon_slower_than",
    "launch_seconds",
    "checkpoint_seconds",
    "restore_seconds",
    "resize_seconds",
)
"""Settings of the scheduler, and what it believes. `rota up` has their flags."""

SIMULATED: Mapping[str, str] = {
    "trace": "jobs are submitted",
    "format": "of a trace",
    "where": "of a trace",
    "first": "of a trace",
    "window": "of a trace",
    "drop_oversized": "of a trace; a job that can never run is refused when it is submitted",
    "elastic": "jobs say which sizes they accept",
    "cluster": "the GPUs of the machine, or those of --pretend",
    "preset": "stands for a simulator, its overheads and its speeds",
    "known_rates": "hides a part of what is known, to test whether it is learned",
    "learn_variability": "hides what is known; slow GPUs are always learned",
    "seed": "of what is drawn at random in a simulation",
    "checkpoint_every_seconds": "jobs save when they like",
    "node_mtbf_seconds": "nodes fail by themselves",
    "node_repair_seconds": "nodes fail by themselves",
    "park": "how jobs of a simulation are parked",
    "memory": "what moving memory really costs",
    "measurement_noise": "how far measurements are off",
    "rates": "how fast jobs really run",
    "gpu_speed": "how fast GPUs really are",
    "whole_steps_seconds": "how jobs of a simulation run",
    "completion_poll_seconds": "how jobs of a simulation end",
}
"""Fields that only a simulation has, and why."""

HEALTH = ("health_check", "health_check_seconds", "health_check_every")
"""Flags that only a live scheduler has, and that its home keeps too."""

REMEMBERED_FIELDS = (*(name for name in LIVE if name not in ("policy", "placer")), *HEALTH)
"""Flags that a home keeps. Its setup names the policy and the placer apart from them."""
