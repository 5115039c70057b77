"""Tactics of the user's own: they act at the steps that they override, and can't break a plan."""

from dataclasses import dataclass

import numpy as np
import pytest

from rota.beliefs.rates import Rates
from rota.core.plan.draft import Draft
from rota.core.plan.mover import Mover
from rota.core.plan.tactic import Tactic, Tactics
from rota.errors import TacticError
from rota.policies.fifo import Fifo
from rota.tactics.grow import Grow
from rota.tactics.migrate import Migrate
from rota.tactics.pack import Pack
from tests.unit.core.helpers import Bench


def bench(tactic: Tactic, cluster: str = "2x(2xV100)") -> Bench:
    found = Bench(cluster, Fifo(backfill=False), Rates(), tactics=Tactics((tactic,)))
    return found


class Everything(Tactic):
    """Grants all that is left to the jobs that wait."""

    def improve(self, draft: Draft) -> None:
        for position in draft.waiting().nonzero()[0].tolist():
            for option in draft.options_of(position):
                if draft.has_room(option):
                    draft.grant(position, option)
                    break


def test_a_step_that_is_not_overridden_is_not_called() -> None:
    tactics = Tactics((Everything(),))
    assert tactics.improving and not (tactics.ordering or tactics.moving or tactics.clearing)


def test_tactics_act_in_order_of_their_turn() -> None:
    made = Tactics((Migrate(), Everything(), Grow(), Pack()))
    assert [type(each) for each in made] == [Pack, Grow, Migrate, Everything]


def submit(found: Bench, *gpus: int) -> None:
    for each in gpus:
        found.obey(found.submit(gpus=each, steps=1e6))


def running(found: Bench) -> set[int]:
    return set(found.core.state.jobs.desired)


def test_waiting_jobs_get_what_a_tactic_grants() -> None:
    plain, improved = Bench("2x(2xV100)", Fifo(backfill=False), Rates()), bench(Everything())
    for found in (plain, improved):
        submit(found, 3, 4, 1)
    assert running(plain) == {0} and running(improved) == {0, 2}


@dataclass(frozen=True)
class Wrong(Tactic):
    """Grants in a way that is not allowed."""

    how: str

    def improve(self, draft: Draft) -> None:
        waits = draft.waiting().nonzero()[0].tolist()
        if not waits:
            return
        options = draft.options_of(waits[0])
        if self.how == "full":
            draft.grant(waits[0], options[0])
        elif self.how == "option":
            draft.grant(waits[0], 999)
        elif self.how == "granted":
            draft.grant(int(draft.grants.position[0]), options[0])
        else:
            raise KeyError(self.how)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("full", "granted already"),
        ("option", "can't run by option 999"),
        ("granted", "does not wait for GPUs"),
        ("else", "raised KeyError: 'else'"),
    ],
)
def test_what_is_not_allowed_names_the_tactic_and_the_place(how: str, said: str) -> None:
    found = bench(Wrong(how))
    with pytest.raises(TacticError, match=r"Wrong\.improve \(test_own_tactics\.py:\d+\): ") as caught:
        submit(found, 3, 4)
    assert said in caught.value.message and isinstance(caught.value.tactic, Wrong) and caught.value.hint


@dataclass(frozen=True)
class Moves(Tactic):
    """Moves the first job that may move to these GPUs."""

    gpus: tuple[int, ...]

    def move(self, mover: Mover) -> None:
        for at in mover.may_move().nonzero()[0].tolist()[:1]:
            option = mover.state.jobs.table.option.item(mover.staying.row.item(at))
            mover.assign(mover.staying.job.item(at), option, np.array(self.gpus, dtype=np.int64))


@pytest.mark.parametrize(
    ("gpus", "said"), [((1,), "not all GPUs"), ((2, 3), "are not 1 of its pool"), ((), "are not 1 of its pool")]
)
def test_gpus_that_a_job_cannot_have_are_refused(gpus: tuple[int, ...], said: str) -> None:
    found = bench(Moves(gpus))
    with pytest.raises(TacticError, match=r"Moves\.move \(test_own_tactics\.py:\d+\): ") as caught:
        submit(found, 1, 1, 1)
    assert said in caught.value.message


def test_a_job_moves_to_free_gpus() -> None:
    found = bench(Moves((3,)))
    submit(found, 1)
    assert found.state.jobs.desired[0].tolist() == [0]
    found.obey(found.submit(at_s=60.0, gpus=1, steps=1e6))
    assert found.state.jobs.desired[0].tolist() == [3]
