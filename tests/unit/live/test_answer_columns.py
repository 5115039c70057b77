"""A policy's answer as it is written: as a difference, and back bit for bit."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rota.compose.live_scheduler import JOURNAL_CODEC
from rota.errors import JournalError
from rota.live.answer_columns import WHOLE_EVERY, KeptAnswer, make_answer, read_answer, same_answer, write_answer
from rota.model.allocation import Allocation, Assignment, Ranking, Shares
from rota.model.codec import Plain
from rota.model.units import Ints


def written(answers: list[tuple[Allocation, Ints | None]]) -> list[Plain]:
    """Each as entry 1, 2, ..., by way of JSON."""
    found, before = [], None
    for number, (answer, ids) in enumerate(answers, 1):
        plain, before = write_answer(answer, ids, number, before, JOURNAL_CODEC)
        found.append(json.loads(json.dumps(plain)))
    return found


def check(answers: list[tuple[Allocation, Ints | None]]) -> list[Plain]:
    plains = written(answers)
    read: dict[int, KeptAnswer] = {}
    for number, (plain, (answer, _)) in enumerate(zip(plains, answers, strict=True), 1):
        read[number] = read_answer(plain, number, read.__getitem__)
        again = make_answer(read[number], JOURNAL_CODEC)
        assert type(again) is type(answer) and text(again) == text(answer)
    return plains


def text(answer: Allocation) -> str:
    return json.dumps(JOURNAL_CODEC.encode(answer))


def remembered(**columns: Any) -> str:
    """As the worker of a policy writes what the policy remembers."""
    return json.dumps({"type": "QueueMemory", "fields": {name: JOURNAL_CODEC.encode(column) for name, column in columns.items()}})


numbers = st.lists(st.integers(1, 60), unique=True, min_size=1, max_size=30).map(sorted)
floats = st.floats(allow_nan=True, allow_infinity=True)


@st.composite
def rankings(draw: st.DrawFn) -> tuple[Allocation, Ints]:
    ids = np.array(draw(numbers))
    order = np.array(draw(st.permutations(range(len(ids))))[: draw(st.integers(0, len(ids)))], dtype=np.int64)
    column = st.one_of(st.none(), st.lists(floats, min_size=len(ids), max_size=len(ids)).map(np.array))
    base = np.array(draw(st.lists(floats, min_size=3 * len(ids), max_size=3 * len(ids)))).reshape(3, len(ids))
    memory = draw(
        st.sampled_from([None, "", "not JSON", '"array"', '{"array": 1}', remembered(ids=ids, place=order, base=base, none=None)])
    )
    return Ranking(
        order=order, run_seconds=draw(column), until_s=draw(floats), memory=memory, type_agnostic=draw(st.booleans())
    ), ids


@settings(deadline=None)
@given(st.lists(rankings(), min_size=1, max_size=6))
def test_rankings_come_back_as_they_were(answers: list[tuple[Allocation, Ints | None]]) -> None:
    check(answers)


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 4), st.floats(0, 1)), max_size=6), min_size=1, max_size=4), st.booleans())
def test_shares_and_assignments_come_back_as_they_were(rows: list[list[tuple[int, float]]], known: bool) -> None:
    answers: list[tuple[Allocation, Ints | None]] = []
    for each in rows:
        option, share = np.array([o for o, _ in each], dtype=np.int64), np.array([s for _, s in each], dtype=np.float64)
        ids = np.arange(1, len(each) + 1) if known else None
        answers.append((Shares(option=option, share=share, notes={2: "waits"}, prices=share[:1]), ids))
        answers.append((Assignment(position=option, option=option, gpus={0: (1, 2)}, memory="x" * 2000), ids))
    check(answers)


def test_columns_of_any_type_come_back() -> None:
    ids = np.arange(1, 5)
    for dtype in (np.int8, np.uint16, np.int32, np.int64, np.float32, np.float64):
        order = ids.astype(dtype) - 1 if np.dtype(dtype).kind in "iu" else ids - 1
        again = [(Ranking(order=order, run_seconds=(ids * k).astype(dtype)), ids) for k in (1, 1, 3)]
        check([*again, (Ranking(order=order.astype(np.int16), run_seconds=ids.astype(np.float64)), ids)])  # type: ignore[list-item]


@pytest.mark.parametrize("shuffled", [False, True], ids=["first come, first served", "any order"])
def test_one_more_job_costs_the_same_in_a_long_queue(shuffled: bool) -> None:
    """It was the order of all jobs, and what the policy remembers of each."""

    def cost(queued: int) -> int:
        rank = np.random.default_rng(1).random(queued + 40) if shuffled else np.arange(queued + 40)
        answers: list[tuple[Allocation, Ints | None]] = []
        for count in range(queued, queued + 40):
            ids = np.arange(1 + count - queued, count + 1)  # one comes, one goes
            order = rank[ids - 1].argsort(kind="stable")
            place = np.empty(len(ids), dtype=np.int64)
            place[order] = np.arange(len(ids))
            memory = (
                remembered(ids=ids, level=np.zeros(len(ids), dtype=np.int64), base=None) if shuffled else remembered(place=place)
            )
            answers.append((Ranking(order=order, run_seconds=np.full(len(ids), np.inf), memory=memory), ids))
        return sum(len(json.dumps(plain)) for plain in check(answers)[1:]) // 39

    short, long = cost(100), cost(5000)
    assert long < 1.5 * short + 200 and long < 1500, (short, long)


def test_a_job_that_moves_to_the_end_is_one_change() -> None:
    ids = np.arange(1, 2001)
    first = np.arange(2000)
    plains = check([(Ranking(order=first), ids), (Ranking(order=np.roll(first, -1)), ids)])
    assert len(json.dumps(plains[1])) < 400


def test_now_and_then_an_answer_is_whole() -> None:
    ids = np.arange(1, 30)
    plains = check([(Ranking(order=ids - 1, until_s=float(i)), ids) for i in range(2 * WHOLE_EVERY)])
    assert [i for i, plain in enumerate(plains) if "since" not in plain] == [0, WHOLE_EVERY]


def test_jobs_that_are_not_in_rising_order_are_written_whole() -> None:
    ids = np.array([3, 1, 2])
    answer = Ranking(order=np.arange(3))
    assert ["since" in plain for plain in check([(answer, ids), (answer, ids), (answer, None)])] == [False] * 3


def test_what_builds_on_an_answer_without_jobs_cannot_be_read() -> None:
    ids = np.arange(1, 4)
    answer = Ranking(order=np.arange(3))
    plain, _ = write_answer(answer, ids, 2, write_answer(answer, ids, 1, None, JOURNAL_CODEC)[1], JOURNAL_CODEC)
    whole = write_answer(answer, None, 1, None, JOURNAL_CODEC)[1]
    with pytest.raises(JournalError, match="entry 2 builds on entry 1"):
        read_answer(plain, 2, lambda _: whole)


def test_answers_differ_by_a_single_bit() -> None:
    ids = np.arange(1, 4)
    answer = Ranking(order=np.arange(3), run_seconds=np.array([0.0, 1.0, 2.0]))
    one = write_answer(answer, ids, 1, None, JOURNAL_CODEC)[1]
    other = write_answer(dataclasses.replace(answer, run_seconds=np.array([-0.0, 1.0, 2.0])), ids, 1, None, JOURNAL_CODEC)[1]
    assert same_answer(one, one) and not same_answer(one, other)
