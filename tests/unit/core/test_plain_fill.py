"""The plain fill grants what the limited fill grants, which can do more and takes longer."""

import random
from typing import Any

import numpy as np
import pytest

from rota.beliefs.move_costs import MoveCosts
from rota.core.plan.candidates import jobs_of, list_candidates
from rota.core.plan.draft import Draft
from rota.core.plan.limited_fill import LimitedFill
from rota.core.plan.pinned import unsaved
from rota.core.plan.plain_fill import PlainFill, is_plain
from rota.core.scheduler import Scheduler
from rota.core.settings import Settings
from rota.core.setup import GivenBeliefs, Setup
from rota.model.cluster import Cluster
from rota.model.policy import Policy
from rota.model.tenants import CREDITS, DECAY, NO_FAIRNESS, Guarantee, Tenants
from rota.placers.packed import Packed
from rota.policies.fifo import Fifo
from rota.policies.las import Las
from rota.policies.max_min_fairness import MaxMinFairness
from rota.policies.srsf import Srsf
from tests.unit.core.helpers import Bench

POLICIES: list[Policy] = [Fifo(), Fifo(backfill=True), Srsf(), Las(), MaxMinFairness()]
PATHS = ("vision", "vision/labs", "vision/labs/deep", "speech", "free")


def tenants_of(dice: random.Random) -> Tenants:
    guarantees = {"vision": Guarantee(5), "vision/labs": Guarantee(2), "vision/labs/deep": Guarantee(1), "speech": Guarantee(4)}
    if dice.random() < 0.4:
        guarantees["speech"] = Guarantee(4, {"V100": 4.0})
    caps = {"vision": float(dice.randrange(5, 9)), "free": 6.0} if dice.random() < 0.4 else {}
    return Tenants(
        dict.fromkeys(PATHS, 1.0),
        guarantees=guarantees,
        caps=caps,
        user_caps={"speech": 5.0} if dice.random() < 0.3 else {},
        fairness=dice.choice((CREDITS, DECAY, NO_FAIRNESS)),
        turn_seconds=50.0,
    )


def bench(seed: int) -> Bench:
    dice = random.Random(seed)
    cluster = dice.choice(("12xV100", "3x(4xV100)", "6xV100 + 4xP100 + 4xK80"))
    made = Bench(cluster, POLICIES[seed % len(POLICIES)])
    given = GivenBeliefs(costs=MoveCosts(launch_seconds=dice.choice((0.0, 30.0))))
    made.core = Scheduler.of(
        Cluster.parse(cluster), Setup(settings=Settings(), placer=Packed(), given=given, tenants=tenants_of(dice))
    )
    return made


def draft_of(made: Bench) -> Draft | None:
    state = made.core.state
    if state.cycle.answer is None:
        return None
    rows, alive = jobs_of(state, state.cycle.answer)
    pinned = unsaved(state, rows)
    if pinned is not None:
        pinned = pinned if alive is None else pinned & alive
        alive = ~pinned if alive is None else alive & ~pinned
    draft = Draft(state, made.core.settings, made.core.placer, rows, alive, pinned)
    list_candidates(draft)
    return draft


def outcome(fill: type[LimitedFill] | type[PlainFill], draft: Draft) -> dict[str, Any]:
    grants = fill(draft).run()
    assert draft.candidates.option is not None and draft.limits is not None
    return {
        "granted": grants.position.tolist(),
        "option": grants.option.tolist(),
        "left": grants.left.tolist(),
        "order": draft.candidates.position.tolist(),
        "ways": draft.candidates.option.tolist(),
        "owed": draft.owed.tolist(),
        "limits": [draft.limits.left(group) for group in range(len(draft.limits.names))],
    }


@pytest.mark.parametrize("seed", range(20))
def test_both_fills_grant_the_same(seed: int) -> None:
    made, dice, compared = bench(seed), random.Random(seed), 0
    for number in range(40):
        spec = {
            "gpus": dice.choice((1, 1, 2, 4)),
            "steps": dice.choice((50.0, 2_000.0, 1e6)),
            "user": dice.choice(("ana", "leo")),
        }
        if dice.random() < 0.2:
            spec["preemptible"] = False
        made.obey(made.submit(20.0 * number, tenant=dice.choice(PATHS), **spec))
        plain, limited = draft_of(made), draft_of(made)
        if plain is None or limited is None:
            continue
        assert is_plain(plain)
        assert outcome(PlainFill, plain) == outcome(LimitedFill, limited)
        compared += 1
    assert compared > 20


def test_many_candidates_are_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rota.core.plan.plain_fill.LOOK", 3)
    for seed in range(10):
        test_both_fills_grant_the_same(seed)


def test_guarantees_follow_users_who_arrive() -> None:
    made = bench(3)
    for user in ("ana", "leo", "eva", "kim"):
        made.obey(made.submit(None, tenant="speech", user=user, gpus=1, steps=1e6))
    accounts = made.core.state.tenants
    draft = draft_of(made)
    assert draft is not None
    PlainFill(draft).run()
    assert np.array_equal(accounts.above[0] >= 0, np.arange(len(accounts.parent)) > 0)
    for key, node in accounts.node_of.items():
        assert [each for each in accounts.above[:, node][::-1].tolist() if each >= 0] == accounts.lineage(node), key
