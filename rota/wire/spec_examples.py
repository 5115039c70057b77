"""A correct line for each field of a spec, for the hints of errors."""

from collections.abc import Mapping

EXAMPLES: Mapping[str, str] = {
    "run": "run: python train.py",
    "name": "name: resnet-50",
    "gpus": "gpus: 2, gpus: 0.5 or gpus: {min: 1, max: 4}",
    "accelerators": "accelerators: [A100, V100]",
    "steps": "steps: 10000",
    "progress": r"progress: 'step (\d+)/(\d+)', or progress: session",
    "checkpoint": "checkpoint: {dir: checkpoints, grace: 60s}",
    "park": "park: false",
    "preemptible": "preemptible: true",
    "gpu_memory": "gpu_memory: 12 GiB",
    "cpus": "cpus: 8",
    "memory": "memory: 64 GiB",
    "profile": "profile: resnet50/bs64",
    "weight": "weight: 2",
    "priority": "priority: 10",
    "tenant": "tenant: vision/pretraining",
    "deadline": "deadline: 2030-12-01T09:00",
    "after": "after: [412], or after: [{job: 412, when: ended}]",
    "max_run_time": "max_run_time: 12h",
    "batch": "batch: {size: 64, min: 32, max: 256}",
    "retries": "retries: 3",
    "workdir": "workdir: /srv/train",
    "env": "env: {EPOCHS: 90, HF_TOKEN: }",
    "sweep": "sweep: {lr: [0.1, 0.01], seed: 0..4}",
    "array": "array: 0-99%8, or array: {indices: 0-99, at_once: 8}",
    "notify": "notify: {on: [finished, failed], url: https://hooks.example.com/rota}",
    "compat": "compat: slurm",
}
"""Field -> a correct line of a spec."""
