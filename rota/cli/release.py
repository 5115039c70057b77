"""`rota release`: let held or suspended jobs run again."""

from typing import TYPE_CHECKING

from rota.cli import common_flags as flag
from rota.cli import job_requests as option

if TYPE_CHECKING:
    from rota.wire.rows import RequestRow


def release(
    jobs: option.Jobs = None,
    user: option.User = None,
    name: option.Name = None,
    tenant: option.Tenant = None,
    phase: option.Phase = None,
    yes: option.Yes = False,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Let jobs run again after `rota hold` or `rota suspend`. They wait for GPUs like other jobs.

    Example: rota release 412
    """
    shaped, pattern = flag.shape(output), option.pattern_of(user, name, tenant, phase)
    option.carry_out("release", jobs, pattern, yes=yes, shaped=shaped, home=home, sentence=released)


def released(each: "RequestRow") -> str:
    """Return what the request changed, as a sentence."""
    from rota.cli import job_text

    title = job_text.title(each.job)
    return f"Released {title} ({option.where_it_was(each)})." if each.changed else f"{title} was not held."
