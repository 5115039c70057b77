"""`rota suspend`: stop running jobs without a loss of work, and keep them away."""

from typing import TYPE_CHECKING

from rota.cli import common_flags as flag
from rota.cli import job_requests as option

if TYPE_CHECKING:
    from rota.wire.rows import RequestRow


def suspend(
    jobs: option.Jobs = None,
    user: option.User = None,
    name: option.Name = None,
    tenant: option.Tenant = None,
    phase: option.Phase = None,
    lose_work: option.LoseWork = False,
    yes: option.Yes = False,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Save or park jobs, and keep them away until `rota resume`. A job that would lose its work is refused.

    Example: rota suspend 412
    """
    shaped, pattern = flag.shape(output), option.pattern_of(user, name, tenant, phase)
    details = {"lose_work": lose_work}
    option.carry_out("suspend", jobs, pattern, yes=yes, shaped=shaped, home=home, sentence=_sentence, details=details)


def _sentence(each: "RequestRow") -> str:
    from rota.cli import job_text
    from rota.wire.rows import HOLDING

    title = job_text.title(each.job)
    if not each.changed:
        return f"{title} was suspended already."
    verb = "Suspending" if each.was in (*HOLDING, "unreachable") else "Held"
    return f"{verb} {title} ({option.where_it_was(each)})."
