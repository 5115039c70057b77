"""All ranks leave and save after the same step, whatever the order in which they run."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.train import agreement
from rota.train.agreement import GO_ON, LEAVE, SAVE, Action, Announcement, OtherRank, RankZero, SingleRank
from rota.train.checkpoint import checkpoints_at
from rota.train.object_store import open_object_store
from rota.train.rank_store import FolderRankStore, ObjectRankStore, RankStore
from tests.examples import examples


class MustWait(Exception):
    """A rank would sleep here."""


class Ranks:
    """Ranks that are stepped by hand, in any order: one that would wait gives way instead."""

    def __init__(self, board: RankStore, count: int, start: int) -> None:
        self.ranks = [RankZero(board), *(OtherRank(board) for _ in range(count - 1))]
        self.steps = [start] * count
        self.saves: list[list[int]] = [[] for _ in range(count)]
        self.left: list[int | None] = [None] * count
        self.pending = [False] * count
        """Has done the step, and waits to be told what to do."""
        for each in self.ranks:
            each.begin(Announcement(start, start="here", written=3))

    def run(self, rank: int, *, stop: bool, save: bool, coupled: bool) -> bool:
        """One step of one rank. False: it could not. `coupled`: a step needs that all others have begun it."""
        if self.left[rank] is not None:
            return False
        if not self.pending[rank]:
            if coupled and any(self.steps[rank] > other for other in self.steps):
                return False
            self.steps[rank] += 1
            self.pending[rank] = True
        step = self.steps[rank]
        try:
            action = GO_ON  # a session does not even ask before `next_step`
            if step >= self.ranks[rank].next_step or ((stop or save) and rank == 0):
                action = self.ranks[rank].at(step, stop=stop and rank == 0, save=save and rank == 0)
        except MustWait:
            return False
        if action.save:
            self.saves[rank].append(step)
        if action.leave:
            self.left[rank] = step
        self.pending[rank] = False
        return True

    def _all_at(self, step: int) -> bool:
        return all(step in saves for saves in self.saves)

    def may_run(self, rank: int) -> bool:
        """It is not inside a save that others have not come to."""
        return not self.saves[rank] or self._all_at(self.saves[rank][-1])


@pytest.fixture(scope="module")
def nobody_sleeps() -> Iterator[None]:
    def sleep(seconds: float) -> None:
        raise MustWait

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agreement, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
        yield


@pytest.mark.usefixtures("nobody_sleeps")
@pytest.mark.parametrize("place", ["folder", "memory"])
@examples(40)
@given(data=st.data(), count=st.integers(2, 4), start=st.sampled_from([0, 57]), coupled=st.booleans())
def test_ranks_do_the_same_at_the_same_step(
    tmp_path_factory: pytest.TempPathFactory, place: str, data: st.DataObject, count: int, start: int, coupled: bool
) -> None:
    """Coupled by collectives, or running ahead of each other as far as they are let."""
    ranks = Ranks(new_board(place, tmp_path_factory.mktemp("ranks")), count, start)
    paces = data.draw(st.lists(st.integers(2, 9), min_size=1, max_size=3))
    # Limits reach further ahead or less far, as if steps were faster or slower.
    ranks.ranks[0]._look_at_pace = lambda step: setattr(ranks.ranks[0], "_ahead", paces[step % len(paces)])  # type: ignore
    asked_at = data.draw(st.integers(start, start + 30))
    save_at = data.draw(st.sets(st.integers(start, start + 30), max_size=3))
    stuck = 0
    while not all(each is not None for each in ranks.left):
        rank = data.draw(st.integers(0, count - 1)) if stuck < 3 * count else stuck % count
        first = ranks.steps[0]
        done = ranks.may_run(rank) and ranks.run(rank, stop=first >= asked_at, save=first in save_at, coupled=coupled)
        stuck = 0 if done else stuck + 1
        assert stuck < 20 * count, f"nobody can go on: {ranks.steps} {ranks.left} {ranks.saves}"
    assert len(set(ranks.left)) == 1, ranks.left
    assert ranks.left[0] is not None and asked_at <= ranks.left[0] <= asked_at + 1 + max(paces)
    assert all(saves == ranks.saves[0] for saves in ranks.saves), ranks.saves


def new_board(place: str, folder: Path) -> RankStore:
    if place == "folder":
        return FolderRankStore(folder)
    pytest.importorskip("fsspec")
    open_object_store("memory://").delete(f"ranks-{os.getpid()}")
    return ObjectRankStore(open_object_store("memory://"), f"ranks-{os.getpid()}")


@pytest.mark.usefixtures("nobody_sleeps")
def test_a_full_disk_stops_nobody_before_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = FolderRankStore(tmp_path)
    first, other = RankZero(board), OtherRank(board)
    first.begin(Announcement(0))
    other.begin(Announcement(0))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(board, "put", full)
        assert first.at(1, stop=True, save=False) == GO_ON and first.next_step == 2
        with pytest.raises(MustWait):
            first.at(2, stop=True, save=False)  # the others have to hear of it
        with pytest.raises(MustWait):
            other.at(2, stop=False, save=False)
    assert (first.at(2, stop=True, save=False), other.at(2, stop=False, save=False)) == (LEAVE, LEAVE)


@pytest.mark.usefixtures("nobody_sleeps")
def test_all_begin_with_what_the_first_found(tmp_path: Path) -> None:
    board = FolderRankStore(tmp_path)
    first, other = RankZero(board), OtherRank(board)
    with pytest.raises(MustWait):
        other.begin(Announcement(0))
    first.begin(Announcement(40, start="step-40", written=6))
    found = other.begin(Announcement(0))
    assert (found.start, found.written, found.limit) == ("step-40", 6, 40 + agreement.MIN_AHEAD)


def test_a_process_alone_does_at_once_what_it_is_asked() -> None:
    alone = SingleRank()
    answers = [alone.at(5, stop=asked, save=save) for asked, save in ((False, False), (False, True), (True, False), (True, True))]
    assert answers == [GO_ON, SAVE, LEAVE, LEAVE]
    assert Action(save=True, leave=True) == LEAVE


RANK = """
import os, sys, time, random
from pathlib import Path
from rota.train import session, YieldExit
work, seed = Path(sys.argv[1]), int(sys.argv[2])
rank = int(os.environ["RANK"])
draw = random.Random(seed * 10 + rank)
state = {"n": 0}
def save(folder): (folder / "n").write_text(str(state["n"]))
def load(folder): state["n"] = int((folder / "n").read_text())
def meet(n):
    # What a collective does: no rank finishes step n before all have begun it.
    (work / f"{n}.{rank}").touch()
    while len(list(work.glob(f"{n}.*"))) < 4:
        time.sleep(0.0005)
def batches():
    while True:
        yield None
try:
    with session(save, load, every_seconds=0.05) as job:
        for _ in job.steps(batches()):
            state["n"] += 1
            meet(state["n"])
            time.sleep(draw.random() * 0.01)
            if rank == 0 and job.step == 20 + seed:
                os.kill(os.getpid(), 15)
except YieldExit as left:
    (work / f"left.{rank}").write_text(f"{left.step} {state['n']}")
    raise
"""


@pytest.mark.usefixtures("nobody_sleeps")
def test_a_board_that_cannot_be_read_is_tried_again_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = FolderRankStore(tmp_path)
    first, other = RankZero(board), OtherRank(board)
    first.begin(Announcement(0))

    def down(name: str) -> bytes | None:
        raise ConnectionError("no route")

    with monkeypatch.context() as patch:
        patch.setattr(board, "get", down)
        with pytest.raises(MustWait):
            other.begin(Announcement(0))
        patch.setattr(agreement, "TROUBLE_SECONDS", -1.0)
        with pytest.raises(ConnectionError):
            other.begin(Announcement(0))
        patch.setattr(board, "get", lambda name: b'{"limit": 2, "sa')
        with pytest.raises(MustWait):
            other.begin(Announcement(0))
    assert other.begin(Announcement(0)).limit == agreement.MIN_AHEAD


@pytest.mark.parametrize(("seed", "nodes"), [(0, 1), (1, 1), (0, 2)])
def test_four_processes_leave_after_the_same_step(tmp_path: Path, seed: int, nodes: int) -> None:
    """Processes of their own that meet at every step, as collectives make them, and save now and then. On several nodes they have
    no more in common than a store."""
    if nodes > 1:
        pytest.importorskip("fsspec")
    place = str(tmp_path) if nodes == 1 else f"file://{tmp_path}"
    (tmp_path / "rank.py").write_text(RANK)
    work, run = tmp_path / "work", tmp_path / "run"
    work.mkdir()
    run.mkdir()
    where = {"ROTA_RUN_DIR": str(run), "ROTA_CHECKPOINT_DIR": place, "ROTA_JOB_ID": "7", "ROTA_ATTEMPT": "1"}
    where["NNODES"] = str(nodes)
    ranks = [
        subprocess.Popen(
            [sys.executable, str(tmp_path / "rank.py"), str(work), str(seed)],
            env={**where, "RANK": str(rank), "WORLD_SIZE": "4", "PYTHONPATH": str(Path(agreement.__file__).parents[2])},
        )
        for rank in range(4)
    ]
    assert [rank.wait(120) for rank in ranks] == [75] * 4
    left = {(work / f"left.{rank}").read_text() for rank in range(4)}
    assert len(left) == 1
    step, count = map(int, left.pop().split())
    assert step == count > 20 + seed
    assert any(run.iterdir()) == (nodes == 1), "what they tell each other is where they all see it"
    saved = tmp_path / "rota-7" if nodes == 1 else f"{place}/rota-7"
    for rank in range(4):
        made = checkpoints_at(saved, FolderRankStore(tmp_path / "unused"), attempt=2, rank=rank, world_size=4)
        found = made.newest()
        assert found is not None and found.step == step
        assert (found.rank_folder(rank) / "n").read_text() == str(step)
        made.release(found)
