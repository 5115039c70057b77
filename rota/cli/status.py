"""`rota status`: show the scheduler in a few lines."""

import json
from typing import TYPE_CHECKING

from rota.cli import common_flags as flag
from rota.model.counted import counted

if TYPE_CHECKING:
    from rota.wire.rows import StatusRow


def status(home: flag.Home = None, output: flag.Output = "table") -> None:
    """Show the scheduler: its cluster, its policy, its jobs by phase, and what needs attention.

    Example: rota status
    """
    shaped = flag.shape(output)
    from rota.cli import job_text
    from rota.wire.client import connect

    client = connect(home)
    found = client.status()
    if shaped == "json":
        job_text.say(json.dumps(found.to_dict()))
    elif shaped == "csv":
        from rota.cli.output import say

        plain = found.to_dict()
        say("csv", rows=[{**plain, "jobs": sum(found.jobs.values()), "slow_gpus": "; ".join(found.slow_gpus)}])
    else:
        for name, value in _facts(found, client.url):
            if value:
                job_text.say(f"{name:<11}{job_text.clean(value)}")


def _facts(found: "StatusRow", url: str) -> list[tuple[str, str]]:
    kind = "pretend GPUs" if found.pretend else "GPUs"
    jobs = ", ".join(f"{count} {phase}" for phase, count in found.jobs.items())
    facts = [
        ("scheduler", f"{url}, process {found.daemon_pid}, version {found.version}"),
        ("cluster", f"{found.cluster}: {found.gpus_busy} of {found.gpus} {kind} busy"),
        ("policy", f"{found.policy}, placer {found.placer}, {counted(found.decisions, 'decision')}"),
        ("jobs", jobs or "none unfinished"),
        ("attention", f"the policy failed: {found.policy_error}" if found.policy_error else ""),
        ("attention", found.disk_problem or ""),
    ]
    return facts + [("attention", line) for line in found.slow_gpus]
