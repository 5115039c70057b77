"""Into which tenants users may submit, and the tenant of a job whose spec names none.

Operators may submit into every tenant, for every user. A tenant that is open, or was before the operator changed the file, keeps
the jobs that it has.
"""

from dataclasses import replace

from rota.errors import ForbiddenError
from rota.model.tenants import Tenants
from rota.wire.actor import Actor
from rota.wire.submission import Submission

MAX_NAMED = 10
"""Maximum number of tenants that an error names."""


def admitted(sent: Submission, tenants: Tenants | None, by: Actor | None) -> Submission:
    """Return a submission with the tenant that it has. Raise ForbiddenError if its user may not submit there."""
    sent = by_membership(sent, tenants)
    _check_member(sent, tenants, by)
    return sent


def by_membership(sent: Submission, tenants: Tenants | None) -> Submission:
    """Return a submission with the tenant that its user's membership gives it, if its spec names none. A job that is submitted
    again may have another one than before."""
    if sent.tenant_by_membership and tenants is not None:
        home = tenants.home_of(sent.spec.tenant)
        if home is None or not tenants.is_open_to(home, sent.user):
            sent = replace(sent, spec=sent.spec.model_copy(update={"tenant": None}), tenant_by_membership=False)
    tenant = tenants.tenant_of_member(sent.user) if tenants is not None and sent.spec.tenant is None else None
    if tenant is None:
        return sent
    return replace(sent, spec=sent.spec.model_copy(update={"tenant": tenant}), tenant_by_membership=True)


def _check_member(sent: Submission, tenants: Tenants | None, by: Actor | None) -> None:
    """Raise ForbiddenError if a job's user may not submit into its tenant. `by`: who submits it; None for the program itself,
    which may do what operators may."""
    if tenants is None or not tenants.members or by is None or by.is_operator:
        return
    home, mine = tenants.home_of(sent.spec.tenant or ""), tenants.open_to(sent.user)
    named = f"tenant: {sent.spec.tenant!r} — " if sent.spec.tenant is not None else ""
    if not mine:
        hint = f"ask an operator to list {sent.user} in the members of a tenant"
        raise ForbiddenError(f"{named}{sent.user} is not a member of a tenant, and no tenant is open to all users.", hint=hint)
    if home is None or home in mine:  # that there is no such tenant is another error
        return
    which = f"the tenant {home}" if named else f"{home}, the tenant of jobs that name none"
    hint = f"tenant: {tenants.tenant_of_member(sent.user) or mine[0]}"
    raise ForbiddenError(f"{named}{sent.user} is not a member of {which}; they may submit into {listed(mine)}.", hint=hint)


def listed(paths: list[str]) -> str:
    """Return tenants in a sentence, the first of many."""
    more = len(paths) - MAX_NAMED
    return ", ".join(paths[:MAX_NAMED]) + (f" and {more:,} others" if more > 0 else "")
