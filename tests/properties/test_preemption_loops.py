"""No two jobs preempt each other in a loop: the bound that docs/tenants.md proves, on real plans of random tenants."""

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rota.core.fold.tenancy import part_of
from rota.core.scheduler import Scheduler
from rota.core.setup import Setup
from rota.core.state.tenant_accounts import TenantAccounts
from rota.model.allocation import Assignment, Ranking
from rota.model.commands import Command, Suspend
from rota.model.events import External, TimerFired
from rota.model.policy import Policy
from rota.model.tenants import CREDITS, DECAY, NO_FAIRNESS, Guarantee, Tenants
from rota.model.units import Floats
from rota.placers.packed import Packed
from rota.policies.fifo import Fifo
from rota.policies.gandiva import Gandiva
from rota.policies.las import Las
from rota.policies.srsf import Srsf
from tests.examples import examples
from tests.unit.core.helpers import Bench, of_type

TURN = 2000.0
STEP = TURN / 100
"""Time between two rounds, in seconds. A planner that followed each move of a credit would change its order in every round."""
QUIET = 2 * TURN
"""Time in which no job arrives, ends or changes, in seconds."""
GPUS = 6
PATHS = ("a", "a/x", "a/y", "b", "c")
POLICIES: tuple[Policy, ...] = (
    Srsf(),
    Las(quantum_seconds=TURN / 2),
    Fifo(),
    Fifo(backfill=True),
    Gandiva(slice_seconds=TURN / 4),
)

guarantees_of = st.fixed_dictionaries({}, optional={"a": st.integers(1, 3), "b": st.integers(1, 2), "c": st.just(1)})
tenants_of = st.builds(
    lambda weights, promised, fairness: Tenants(
        dict(zip(PATHS, weights, strict=True)),
        guarantees={path: Guarantee(gpus) for path, gpus in promised.items()},
        fairness=fairness,
        turn_seconds=TURN,
        half_life_seconds=4 * TURN,
    ),
    st.tuples(*[st.sampled_from([1.0, 1.0, 2.0])] * len(PATHS)),
    guarantees_of,
    st.sampled_from([CREDITS, CREDITS, DECAY, NO_FAIRNESS]),
)
jobs_of = st.lists(
    st.tuples(st.sampled_from(PATHS), st.sampled_from(["ana", "leo"]), st.sampled_from([2, 3, 4, 6])), min_size=5, max_size=9
)


class Watched(Bench):
    """A core that notes which job took GPUs of which, and how often its policy gave another answer."""

    def __init__(self, tenants: Tenants, policy: Policy) -> None:
        super().__init__(f"{GPUS}xV100", policy)
        setup = Setup(settings=self.core.settings, placer=Packed(), tenants=tenants)
        self.core = Scheduler.of(self.state.nodes.cluster, setup)
        self.turnarounds = Counter[tuple[int, int]]()
        """How often the jobs of a pair took GPUs of each other by turns."""
        self._last: dict[tuple[int, int], int] = {}
        self.answers, self._answer = 0, Any

    def tell(self, *events: External, at_s: float | None = None) -> list[Command]:
        commands = super().tell(*events, at_s=at_s)
        jobs = self.state.jobs
        for suspend in of_type(commands, Suspend):
            gpus = set(jobs.attempts[suspend.job].gpus.tolist())
            for taker, desired in jobs.desired.items():
                if taker != suspend.job and not gpus.isdisjoint(desired.tolist()):
                    pair = (min(taker, suspend.job), max(taker, suspend.job))
                    self.turnarounds[pair] += self._last.setdefault(pair, taker) != taker
                    self._last[pair] = taker
        named = self._named()
        self.answers, self._answer = self.answers + (named != self._answer), named
        return commands

    def _named(self) -> Any:
        """Return the jobs of the policy's answer, in its order."""
        answer = self.state.cycle.answer
        if answer is None:
            return None
        found = answer.allocation
        assert isinstance(found, Ranking | Assignment)
        return answer.ids[found.order if isinstance(found, Ranking) else found.position].tolist()

    def forget(self) -> None:
        """Begin to count."""
        self.turnarounds.clear()
        self._last.clear()
        self.answers = 0


@given(tenants=tenants_of, jobs=jobs_of, policy=st.sampled_from(POLICIES))
@examples(90)
def test_two_jobs_take_gpus_from_each_other_no_more_often_than_is_proved(
    tenants: Tenants, jobs: list[tuple[str, str, int]], policy: Policy
) -> None:
    made = Watched(tenants, policy)
    for tenant, user, gpus in jobs:
        made.now_s += STEP
        made.obey(made.submit(tenant=tenant, user=user, gpus=gpus, steps=1e9))
    made.forget()
    until_s, accounts = made.now_s + QUIET, made.state.tenants
    bands, scores = accounts.band.copy(), score(accounts)
    moved, changes, moments = np.zeros(len(bands)), np.zeros(len(bands)), 0
    while made.now_s < until_s:
        made.now_s += STEP
        made.obey(made.tell(TimerFired(made.now_s)))  # what was received is booked before events
        accounts = made.state.tenants
        moved, scores = moved + np.abs(score(accounts) - scores), score(accounts)
        changed, bands = accounts.band != bands, accounts.band.copy()
        changes, moments = changes + changed, moments + bool(changed.any())
    # Step 1: while neither the policy's order nor a band changes, the plan stays.
    assert max(made.turnarounds.values(), default=0) <= made.answers + moments, (made.turnarounds, made.answers, moments)
    # Step 2: a band changes only when the credit, or the usage, has moved by a whole band.
    band = accounts.weight * TURN * part_of(accounts, float(GPUS))
    if tenants.fairness == NO_FAIRNESS:
        assert not moments
    assert (changes <= 1 + moved / band).all(), (changes, moved / band)
    # Step 3: it moves by at most the GPUs of the cluster.
    assert moved.max() <= GPUS * QUIET * (1 + 1e-9)


def score(accounts: TenantAccounts) -> Floats:
    """Return what orders borrowers: the credit of each node, or its usage."""
    assert accounts.tenants is not None
    found: Floats = (accounts.credit if accounts.tenants.fairness == CREDITS else accounts.usage).copy()
    return found
