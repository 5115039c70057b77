"""Notes from rank to rank, in a folder or in a store."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from rota.errors import OptionError
from rota.train import rank_store as board_module
from rota.train.object_store import ObjectStore, open_object_store
from rota.train.rank_environment import JobEnvironment
from rota.train.rank_store import (
    AHEAD_SECONDS,
    MAX_AHEAD_SECONDS,
    FolderRankStore,
    ObjectRankStore,
    RankStore,
    pauses,
    put_with_retry,
    shared_rank_store,
)


@pytest.fixture(params=["folder", "file"])
def board(request: pytest.FixtureRequest, tmp_path: Path) -> RankStore:
    if request.param == "folder":
        return FolderRankStore(tmp_path / "ranks")
    pytest.importorskip("fsspec")
    return ObjectRankStore(open_object_store(f"file://{tmp_path}"), "ranks")


def test_a_note_is_there_until_it_is_deleted(board: RankStore) -> None:
    assert board.get("a") is None
    board.put("a", b"1")
    board.put("a", b"2")
    board.put("save-7/rank-1", b"x")
    board.put("save-7/rank-2", b"y")
    assert (board.get("a"), board.get("save-7/rank-2")) == (b"2", b"y")
    board.delete("save-7")
    board.delete("a")
    board.delete("a")
    assert board.get("save-7/rank-1") is board.get("save-7/rank-2") is board.get("a") is None


def test_ranks_of_one_node_share_a_folder_and_those_of_several_a_store(tmp_path: Path) -> None:
    where = JobEnvironment(tmp_path / "run", "file:///unused", 3, world_size=4)
    shared_rank_store(where).put("a", b"1")
    assert (tmp_path / "run" / "ranks.i3.0" / "a").read_bytes() == b"1"
    with pytest.raises(OptionError, match="ROTA_CHECKPOINT_DIR — is not set"):
        shared_rank_store(where._replace(nodes=2, checkpoint_folder=None))
    pytest.importorskip("fsspec")
    shared_rank_store(where._replace(nodes=2, checkpoint_folder=f"file://{tmp_path}/ckpt")).put("a", b"2")
    assert (tmp_path / "ckpt" / "ranks.i3.0" / "a").read_bytes() == b"2"


class SlowObjects(ObjectStore):
    """Takes so long, by a clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = self.seconds = 0.0

    def put(self, key: str, data: bytes) -> None:
        self.now_s += self.seconds


def test_over_a_slow_store_limits_reach_further_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = SlowObjects()
    monkeypatch.setattr(board_module, "time", SimpleNamespace(monotonic=lambda: objects.now_s))
    made = ObjectRankStore(objects, "ranks")
    assert made.ahead_seconds == FolderRankStore.ahead_seconds == AHEAD_SECONDS
    for seconds, ahead in ((0.001, AHEAD_SECONDS), (0.05, AHEAD_SECONDS)):
        objects.seconds = seconds
        made.put("a", b"")
        assert made.ahead_seconds == ahead, "one that was held up does not count"
    for seconds, ahead in ((0.05, 5.0), (2.0, MAX_AHEAD_SECONDS)):
        objects.seconds = seconds
        for _ in range(5):
            made.put("a", b"")
        assert made.ahead_seconds == pytest.approx(ahead)


def test_a_store_is_looked_at_less_and_less_often(tmp_path: Path) -> None:
    found = [pause for pause, _ in zip(pauses(ObjectRankStore(SlowObjects(), "ranks")), range(9), strict=False)]
    assert found[:3] == [0.02, 0.04, 0.08] and found[-2:] == [0.5, 0.5]


def test_a_note_that_matters_is_tried_again(tmp_path: Path) -> None:
    made, tries = FolderRankStore(tmp_path), []

    class Failing(FolderRankStore):
        def put(self, name: str, data: bytes) -> None:
            tries.append(name)
            if len(tries) < 3:
                raise OSError("not now")
            made.put(name, data)

    put_with_retry(Failing(tmp_path), "a", b"1", 60.0)
    assert made.get("a") == b"1" and len(tries) == 3
    tries.clear()
    with pytest.raises(OSError, match="not now"):
        put_with_retry(Failing(tmp_path), "b", b"1", -1.0)
