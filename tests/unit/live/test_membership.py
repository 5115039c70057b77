"""Into which tenants users may submit."""

from dataclasses import replace

import pytest

from rota.errors import ForbiddenError, OptionError
from rota.live.membership import admitted, listed
from rota.live.possible import check_tenant
from rota.model.job import JobSpec
from rota.model.tenants import Tenants
from rota.wire.actor import Actor, Role
from rota.wire.spec import Spec
from rota.wire.submission import Submission, decode_submission, encode_submission

TENANTS = Tenants(
    dict.fromkeys(("vision", "vision/labs", "speech", "other"), 1.0),
    members={"vision": ("ana", "leo"), "speech": ("leo",), "other": ()},
    unknown="other",
)


def sent(user: str, tenant: str | None = None) -> Submission:
    return Submission(Spec(run="true", tenant=tenant), user, "/", {})


def tenant_of(
    user: str, tenant: str | None = None, role: Role | None = Role.USER, tenants: Tenants | None = TENANTS
) -> str | None:
    by = None if role is None else Actor(user, role)
    return admitted(sent(user, tenant), tenants, by).spec.tenant


def test_a_member_submits_into_their_tenants_and_those_below() -> None:
    assert tenant_of("leo", "speech") == "speech" and tenant_of("leo", "vision/labs/new") == "vision/labs/new"
    assert tenant_of("ana") == "vision/labs", "the only one of which ana is a member"


def test_a_job_that_is_submitted_again_gets_the_tenant_of_a_membership_that_has_changed() -> None:
    before, by = admitted(sent("ana"), TENANTS, None), Actor("ana", Role.USER)
    assert (before.spec.tenant, before.tenant_by_membership) == ("vision/labs", True)
    members = {"vision": ("leo",), "speech": ("ana",)}
    for weights in (TENANTS.weights, {"speech": 1.0}):
        moved = Tenants(weights, members={path: users for path, users in members.items() if path in weights}, unknown="refuse")
        again = admitted(before, moved, by)
        assert (again.spec.tenant, again.tenant_by_membership) == ("speech", True)
    assert admitted(before, replace(TENANTS, members={**TENANTS.members, "speech": ("ana",)}), by) == before, "it is still theirs"
    moved = replace(TENANTS, members=members)
    with pytest.raises(ForbiddenError, match="tenant: 'vision' — ana is not a member of the tenant vision"):
        admitted(admitted(sent("ana", "vision"), TENANTS, None), moved, by)


def test_a_tenant_in_the_spec_comes_before_the_membership() -> None:
    assert tenant_of("ana", "vision") == "vision"


def test_others_are_refused_and_see_which_tenants_are_theirs() -> None:
    with pytest.raises(ForbiddenError) as caught:
        tenant_of("ana", "speech")
    assert (
        caught.value.message
        == "tenant: 'speech' — ana is not a member of the tenant speech; they may submit into vision, vision/labs."
    )
    assert caught.value.hint == "tenant: vision/labs"
    with pytest.raises(
        ForbiddenError,
        match=r"^leo is not a member of other, the tenant of jobs that name none; they may submit into speech, vision",
    ):
        tenant_of("leo")
    for tenant in ("vision", None):
        with pytest.raises(ForbiddenError, match="eve is not a member of a tenant, and no tenant is open to all") as caught:
            tenant_of("eve", tenant)
    assert caught.value.hint == "ask an operator to list eve in the members of a tenant"


def test_that_there_is_no_such_tenant_is_another_error() -> None:
    refusing = replace(TENANTS, unknown="refuse")
    assert tenant_of("ana", "sales", tenants=refusing) == "sales"
    with pytest.raises(OptionError, match="is not a tenant of this cluster") as caught:
        check_tenant(JobSpec(user="leo"), refusing)
    assert caught.value.hint == "tenant: speech; all: speech, vision, vision/labs"
    with pytest.raises(ForbiddenError, match="eve is not a member of a tenant"):
        tenant_of("eve", "sales", tenants=refusing)


def test_operators_and_the_program_itself_submit_into_every_tenant() -> None:
    assert tenant_of("ops", "speech", Role.OPERATOR) == "speech" and tenant_of("eve", "other", None) == "other"
    assert tenant_of("ana", None, Role.OPERATOR) == "vision/labs", "for a user their membership counts, whoever submits"


def test_without_members_a_tenant_is_open() -> None:
    open_to_all = Tenants({"vision": 1.0})
    assert tenant_of("eve", "vision", tenants=open_to_all) == "vision" and tenant_of("eve", tenants=open_to_all) is None
    assert tenant_of("eve", "anything", tenants=None) == "anything"


def test_a_home_keeps_whether_the_membership_gave_the_tenant() -> None:
    given = admitted(sent("ana"), TENANTS, None)
    assert given.tenant_by_membership and decode_submission(encode_submission(given)) == given
    own = admitted(sent("ana", "vision/labs"), TENANTS, None)
    assert not own.tenant_by_membership and decode_submission(encode_submission(own)) == own


def test_of_many_tenants_an_error_names_the_first() -> None:
    assert listed([str(number) for number in range(13)]) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 3 others"
