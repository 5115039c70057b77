"""Limits on unfinished jobs: counted as jobs come and go, for any tenants, without a look at other jobs."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import ConflictError
from rota.live.unfinished_jobs import UnfinishedJobs
from rota.model.tenants import Tenants, lineage
from rota.wire.spec import Spec
from rota.wire.submission import Submission
from tests.examples import examples

PATHS = ("a", "a/x", "a/y", "b")
USERS = ("ana", "leo")
SENT = {(path, user): Submission(Spec(run="true", tenant=path or None), user, "/", {}) for path in ("", *PATHS) for user in USERS}
limits = st.dictionaries(st.sampled_from(PATHS), st.integers(1, 6))
tenants_of = st.builds(
    lambda most, own: Tenants(dict.fromkeys(PATHS, 1.0), max_jobs=most, user_max_jobs=own, unknown="b"), limits, limits
)
owners = st.sampled_from(sorted(SENT))


def within(jobs: Counter[tuple[str, str]], tenants: Tenants, owner: tuple[str, str]) -> bool:
    """Whether these jobs are within all limits that concern an owner: the definition, counted from the jobs themselves."""
    steps = {path: lineage(tenants.home_of(path) or "") for path, _ in SENT}
    nearest = {
        path: next((step for step in reversed(each) if step in tenants.user_max_jobs), None) for path, each in steps.items()
    }
    mine, user = owner
    for step in steps[mine]:
        together = sum(number for (path, _), number in jobs.items() if step in steps[path])
        if together > tenants.max_jobs.get(step, together):
            return False
    own = nearest[mine]
    same = sum(number for (path, who), number in jobs.items() if who == user and nearest[path] == own)
    return own is None or same <= tenants.user_max_jobs[own]


@given(st.lists(st.tuples(owners, st.integers(1, 3)) | st.integers(0, 50) | tenants_of, max_size=40), tenants_of)
@examples(60)
def test_a_submission_is_refused_exactly_if_it_would_exceed_a_limit(
    steps: "list[tuple[tuple[str, str], int] | int | Tenants]", tenants: Tenants
) -> None:
    """Jobs arrive in arrays, jobs end, and the operator changes the tenants, which may leave more jobs than are allowed."""
    found, jobs = UnfinishedJobs(), list[tuple[str, str]]()
    for step in steps:
        if isinstance(step, Tenants):
            tenants = step
        elif isinstance(step, int):
            if jobs:
                found.remove(SENT[jobs.pop(step % len(jobs))])
        else:
            owner, tasks = step
            allowed = within(Counter([*jobs, *[owner] * tasks]), tenants, owner)
            try:
                found.check(tenants, [(SENT[owner], tasks)])
            except ConflictError:
                assert not allowed
                continue
            assert allowed
            jobs += [owner] * tasks
            for _ in range(tasks):
                found.add(SENT[owner])
    counted = UnfinishedJobs()
    for job in jobs:
        counted.add(SENT[job])
    for path, user in SENT:
        for limit in tenants.job_limits(tenants.home_of(path) or "", user):
            assert found.number(tenants, limit) == counted.number(tenants, limit)


def test_the_error_states_what_is_counted() -> None:
    tenants, found = Tenants({"a": 1.0}, max_jobs={"a": 4}, user_max_jobs={"a": 3}), UnfinishedJobs()
    for _ in range(3):
        found.add(SENT["a", "ana"])
    with pytest.raises(ConflictError) as caught:
        found.check(tenants, [(SENT["a", "ana"], 1)])
    assert caught.value.message == "tenant: 'a' — OVER_QUOTA: ana has 3 unfinished jobs there, and at most 3 are allowed."
    assert caught.value.hint == "rota jobs --user ana, and submit again when some have ended"
    with pytest.raises(ConflictError) as caught:
        found.check(tenants, [None, (SENT["a", "leo"], 1), (SENT["a/x", "leo"], 2)], several=True)
    assert caught.value.field == "jobs.2.tenant" and caught.value.message == (
        "jobs[2]  tenant: 'a' — OVER_QUOTA: its users have 3 unfinished jobs there, this adds 3, and at most 4 are allowed. "
        "None of the jobs was taken."
    )
    found.check(None, [(SENT["a", "ana"], 100)])


def test_paths_without_unfinished_jobs_take_no_memory() -> None:
    counted, tenants = UnfinishedJobs(), Tenants({"a": 1.0}, max_jobs={"a": 5})
    for number in range(20):
        sent = Submission(Spec(run="true", tenant=f"a/{number}"), "ana", "/", {})
        counted.check(tenants, [(sent, 1)])
        if number % 2:
            counted.add(sent)
            assert len(counted._limits) == 1
            counted.remove(sent)
    assert not counted._limits and not counted._by_owner
