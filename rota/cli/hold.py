"""`rota hold`: keep waiting jobs from starting."""

from typing import TYPE_CHECKING

from rota.cli import common_flags as flag
from rota.cli import job_requests as option

if TYPE_CHECKING:
    from rota.wire.rows import RequestRow


def hold(
    jobs: option.Jobs = None,
    user: option.User = None,
    name: option.Name = None,
    tenant: option.Tenant = None,
    phase: option.Phase = None,
    yes: option.Yes = False,
    home: flag.Home = None,
    output: flag.Output = "table",
) -> None:
    """Keep waiting jobs from starting until `rota release`. For running jobs see `rota suspend`.

    Example: rota hold 412 vit-huge
    """
    shaped, pattern = flag.shape(output), option.pattern_of(user, name, tenant, phase)
    option.carry_out("hold", jobs, pattern, yes=yes, shaped=shaped, home=home, sentence=_sentence)


def _sentence(each: "RequestRow") -> str:
    from rota.cli import job_text

    title = job_text.title(each.job)
    return f"Held {title} ({option.where_it_was(each)})." if each.changed else f"{title} was held already."
