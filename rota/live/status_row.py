"""The state of the scheduler for `rota status`."""

import os
from collections import Counter

from rota import __version__
from rota.core.explain import taken_gpus
from rota.core.explain_drains import drain_sentences
from rota.core.learn.cordon import slow_gpus
from rota.core.learn.failing_nodes import failing_nodes
from rota.core.state.state import State
from rota.live.cluster_changes import gpus_present
from rota.live.home_setup import HomeSetup
from rota.live.instants import iso
from rota.live.takeover_leases import lease_left_seconds
from rota.model.job import Phase
from rota.wire.rows import StatusRow


def status_row(state: State, setup: HomeSetup, now_s: float, *, worker_pid: int | None, disk_problem: str | None) -> StatusRow:
    """Return the status of a scheduler in this state and with this setup."""
    codes = state.jobs.table.phase[list(state.jobs.row.values())]
    phases = Counter(Phase(code).label for code in codes.tolist())
    return StatusRow(
        version=__version__,
        policy=setup.policy,
        placer=setup.placer_name,
        cluster=str(setup.cluster),
        gpus=gpus_present(state),
        gpus_busy=int((~state.nodes.observed.free).sum()),
        pretend=setup.pretend,
        jobs=dict(phases),
        decisions=state.cycle.decision,
        now=iso(now_s) or "",
        daemon_pid=os.getpid(),
        policy_worker_pid=worker_pid,
        policy_error=state.cycle.policy_fault,
        slow_gpus=[*drain_sentences(state), *failing_nodes(state), *taken_gpus(state), *slow_gpus(state)],
        disk_problem=disk_problem,
        lease_left_seconds=lease_left_seconds(state, now_s),
    )
