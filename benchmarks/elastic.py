"""Jobs that accept a hundred sizes each: what a copy of the scheduler and a decision cost.

make bench ARGS=elastic
"""

import time
from collections.abc import Callable
from typing import Any

from rota.beliefs.rates import Rates
from rota.compose.registry import make_policy
from rota.core.scheduler import Scheduler
from rota.model.cluster import Cluster
from rota.model.commands import CallPolicy, Launch, Resume
from rota.model.events import Allocated, Started, Submitted
from rota.model.job import JobSpec
from rota.placers.packed import Packed

CLUSTER = "200x(8xA100) + 200x(8xV100) + 200x(8xP100) + 200x(8xK80)"
COUNTS = (1, 2, 3, 4, 6)
BATCHES = (32, 64, 128, 256, 512)
POLICIES = ("fifo", "srsf", "tiresias", "max-min-fairness")


def crowd(jobs: int = 10_000) -> Scheduler:
    """Jobs of one kind with a hundred options: four pools, five GPU counts, five batch sizes."""
    names = ("A100", "V100", "P100", "K80")
    rates = Rates(
        table={("model", name, gpus): (4 - at) * gpus**0.9 for at, name in enumerate(names) for gpus in COUNTS},
        batches={
            ("model", name, gpus, batch): (4 - at) * gpus**0.9 * (64 / batch) ** 0.9
            for at, name in enumerate(names)
            for gpus in COUNTS
            for batch in BATCHES
        },
    )
    core = Scheduler(Cluster.parse(CLUSTER), Packed(), rates=rates)
    spec = JobSpec(profile="model", gpus=2, gpu_counts=COUNTS, batch_size=64, batch_sizes=BATCHES, steps=1e5, can_resize=True)
    core.fold(0.0, [Submitted(job, spec, 0.0) for job in range(jobs)])
    assert len(core.state.beliefs.options) == 100
    return core


def answer(core: Scheduler, policy: Any, now_s: float, *events: Any) -> list[Any]:
    """Ask, answer and decide once."""
    commands = core.step(now_s, list(events))
    asked = next((command for command in commands if isinstance(command, CallPolicy)), None)
    if asked is not None:
        commands += core.step(now_s, [Allocated(asked.ticket, policy.allocate(asked.view), now_s)])
    return commands


def elastic() -> list[dict[str, Any]]:
    """CPU milliseconds, the best of seven."""
    rows = []
    for name in POLICIES:
        policy = make_policy(name)
        empty = crowd()
        ask = _best(lambda policy=policy, core=empty: policy.allocate(core.view()))
        fill = _best(lambda policy=policy, core=empty: answer(core.fork(), policy, 0.0))
        full = empty.fork()
        launched = [command for command in answer(full, policy, 0.0) if isinstance(command, Launch | Resume)]
        full.step(1.0, [Started(each.job, each.attempt, each.sequence, 1.0, from_step=0.0) for each in launched])
        fork = _best(full.fork)
        spec = full.state.jobs.specs[0]
        newcomer = Submitted(10_000, spec, 2.0)
        one_more = _best(lambda policy=policy, core=full, event=newcomer: answer(core.fork(), policy, 2.0, event))
        gpus = sum(len(each.gpus) for each in launched if isinstance(each, Launch))
        rows += [
            {"what": f"{name}: ask the policy", "ms": ask},
            {"what": f"{name}: fill the empty cluster ({len(launched):,} launches on {gpus:,} GPUs)", "ms": fill - fork},
            {"what": f"{name}: one more job arrives on the full cluster", "ms": one_more - fork},
            {"what": f"{name}: fork()", "ms": fork},
        ]
    return rows


def _best(act: Callable[[], Any], repeat: int = 7) -> float:
    times = []
    for _ in range(repeat):
        began = time.process_time()
        act()
        times.append(time.process_time() - began)
    return min(times) * 1e3


if __name__ == "__main__":
    for row in elastic():
        print(f"{row['ms']:9.2f} ms  {row['what']}")
