"""`rota resume`: let suspended or held jobs run again."""

from rota.cli import common_flags as flag
from rota.cli import job_requests as option
from rota.cli.release import released


def resume(
    jobs: option.Jobs = None,
    user: option.User = None,
    name: option.Name = None,
    tenant: option.Tenant = None,
    phase: option.Phase = None,
    yes: option.Yes = False,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Let jobs run again after `rota suspend` or `rota hold`. They wait for GPUs like other jobs.

    Example: rota resume 412
    """
    shaped, pattern = flag.shape(output), option.pattern_of(user, name, tenant, phase)
    option.carry_out("resume", jobs, pattern, yes=yes, shaped=shaped, home=home, sentence=released)
