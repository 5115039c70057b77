"""Checkpoints: complete or absent, the newest readable one is used, and the last one is never lost."""

import errno
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.errors import CheckpointError
from rota.train import folder_checkpoints, manifest
from rota.train.checkpoint import checkpoints_at
from rota.train.folder_checkpoints import MANIFEST
from tests.examples import examples


def writes(text: str):
    def save(folder: Path) -> None:
        (folder / "deep").mkdir()
        (folder / "deep" / "state").write_text(text)
        (folder / "more").write_bytes(b"\0" * 1000)

    return save


def read(found: manifest.CompleteCheckpoint | None) -> str:
    assert found is not None
    return (found.rank_folder(0) / "deep" / "state").read_text()


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_what_is_written_is_found_again(tmp_path: Path) -> None:
    store = checkpoints_at(tmp_path / "a" / "b", attempt=3)
    assert store.newest() is None
    store.write(120, {"epoch": 2, "offset": 7}, writes("x"))
    found = checkpoints_at(tmp_path / "a" / "b", attempt=4).newest()
    assert found is not None and (found.step, found.attempt, found.facts) == (120, 3, {"epoch": 2, "offset": 7})
    assert read(found) == "x"
    assert names(found.folder) == [MANIFEST, "rank-0"], "nothing of the writing is left"


def test_old_ones_are_collected(tmp_path: Path) -> None:
    store = checkpoints_at(tmp_path, attempt=1, keep=2)
    for step in (10, 20, 30, 40):
        store.write(step, {}, writes(str(step)))
    assert names(tmp_path) == ["step-000000000030.i1.3", "step-000000000040.i1.4"]


def test_what_an_earlier_attempt_began_is_removed(tmp_path: Path) -> None:
    (tmp_path / "new.i1.9" / "rank-0").mkdir(parents=True)
    checkpoints_at(tmp_path, attempt=2).write(5, {}, writes("x"))
    assert names(tmp_path) == ["step-000000000005.i2.1"]


def test_a_late_process_of_an_earlier_attempt_does_not_push_in_front(tmp_path: Path) -> None:
    late = checkpoints_at(tmp_path, attempt=1)
    late.write(100, {}, writes("first"))
    checkpoints_at(tmp_path, attempt=2).write(150, {}, writes("second"))
    late.write(900, {}, writes("late"))
    assert read(checkpoints_at(tmp_path, attempt=3).newest()) == "second"


def test_a_folder_that_another_job_left_is_gone_on_with(tmp_path: Path) -> None:
    """The user names a folder, and the new job counts its attempts from 1."""
    checkpoints_at(tmp_path, attempt=5).write(100, {}, writes("old"))
    store = checkpoints_at(tmp_path, attempt=1)
    assert read(store.newest()) == "old"
    store.write(101, {}, writes("new"))
    assert read(checkpoints_at(tmp_path, attempt=2).newest()) == "new"


@examples(60)
@given(data=st.data())
def test_a_torn_one_is_told_and_the_one_before_is_used(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Whatever a power cut, a bad disk or a person does to any file of it."""
    folder = tmp_path_factory.mktemp("torn")
    store = checkpoints_at(folder, attempt=1)
    store.write(10, {}, writes("before"))
    newest = store.write(20, {}, writes("newest" * 100)).folder
    victim = data.draw(st.sampled_from([newest / MANIFEST, newest / "rank-0/deep/state", newest / "rank-0/more"]))
    content = victim.read_bytes()
    how = data.draw(st.sampled_from(["cut", "flip", "gone", "empty"]))
    if how == "gone":
        victim.unlink()
    else:
        place = data.draw(st.integers(0, len(content) - 1))
        flipped = content[:place] + bytes([content[place] ^ (1 << data.draw(st.integers(0, 7)))]) + content[place + 1 :]
        victim.write_bytes({"cut": content[:place], "empty": b"", "flip": flipped}[how])
    again = checkpoints_at(folder, attempt=2)
    assert read(again.newest()) == "before"
    assert len(again.torn) == 1 and str(newest) in again.torn[0]
    again.write(30, {}, writes("after"))
    assert names(folder) == ["step-000000000010.i1.1", "step-000000000030.i2.1"], "the torn one is gone, the good one is kept"


@pytest.mark.parametrize("when", ["save", "seal", "rename"])
def test_a_full_disk_is_told_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    store = checkpoints_at(tmp_path, attempt=1)
    store.write(10, {}, writes("before"))
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fail(*_: object, **__: object) -> None:
        raise full

    if when == "seal":
        monkeypatch.setattr(folder_checkpoints.os, "fsync", fail)
    if when == "rename":
        monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(CheckpointError) as error:
        store.write(20, {}, fail if when == "save" else writes("x"))
    monkeypatch.undo()
    assert error.value.message == (
        f"The checkpoint of step 20 could not be written to {tmp_path}: No space left on device. The one of step 10 is kept."
    )
    assert "make room" in error.value.hint
    assert names(tmp_path) == ["step-000000000010.i1.1"]
    store.write(30, {}, writes("after"))
    assert read(checkpoints_at(tmp_path, attempt=2).newest()) == "after"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_told(tmp_path: Path) -> None:
    store = checkpoints_at(tmp_path, attempt=1)
    store.write(10, {}, writes("before"))
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(CheckpointError, match=r"Permission denied\. The one of step 10 is kept"):
            store.write(20, {}, writes("x"))
    finally:
        tmp_path.chmod(0o700)
    assert read(checkpoints_at(tmp_path, attempt=2).newest()) == "before"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_disk_that_is_really_full_and_one_that_is_read_only(small_disk: Path) -> None:
    def large(folder: Path) -> None:
        (folder / "large").write_bytes(b"x" * (2 << 20))

    store = checkpoints_at(small_disk / "ckpt", attempt=1)
    store.write(10, {}, writes("before"))
    with pytest.raises(CheckpointError, match=r"No space left on device\. The one of step 10 is kept"):
        store.write(20, {}, large)
    assert names(small_disk / "ckpt") == ["step-000000000010.i1.1"], "what was begun is gone, so there is room again"
    store.write(30, {}, writes("after"))
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(CheckpointError, match=r"Read-only file system\. The one of step 30 is kept"):
        store.write(40, {}, writes("x"))
    assert read(checkpoints_at(small_disk / "ckpt", attempt=2).newest()) == "after"


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match=r"could not be written to .*: Not a directory\. There is none before it"):
        checkpoints_at(tmp_path / "file" / "ckpt").write(1, {}, writes("x"))


def in_ranks(folder: Path, count: int, save) -> list[object]:
    """What each rank's write gave or raised."""
    found: list[object] = [None] * count

    def rank(number: int) -> None:
        store = checkpoints_at(folder, attempt=1, rank=number, world_size=count)
        store.written = 0
        try:
            found[number] = store.write(7, {}, lambda part: save(part, number))
        except CheckpointError as error:
            found[number] = error

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_ranks_write_one_checkpoint_together(tmp_path: Path) -> None:
    found = in_ranks(tmp_path, 4, lambda part, rank: (part / "mine").write_text(str(rank)))
    assert all(isinstance(each, manifest.CompleteCheckpoint) for each in found), found
    whole = checkpoints_at(tmp_path, attempt=2, world_size=4).newest()
    assert whole is not None and whole.world_size == 4
    assert [(whole.rank_folder(rank) / "mine").read_text() for rank in range(4)] == ["0", "1", "2", "3"]
    assert (whole.rank_folder(6) / "mine").read_text() == "0", "a rank that was not there begins with what the first saved"
    assert names(whole.folder) == [MANIFEST, "rank-0", "rank-1", "rank-2", "rank-3"]
    assert json.loads(json.loads((whole.folder / MANIFEST).read_bytes())["body"])["step"] == 7


def test_if_one_rank_cannot_save_none_has_saved(tmp_path: Path) -> None:
    def save(part: Path, rank: int) -> None:
        if rank == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        (part / "mine").write_text(str(rank))

    found = in_ranks(tmp_path, 4, save)
    assert all(isinstance(each, CheckpointError) for each in found), found
    assert "rank 2: [Errno 28] No space left on device" in found[0].message  # type: ignore[union-attr]
    assert names(tmp_path) == []


def test_a_checkpoint_of_the_version_before_is_found(tmp_path: Path) -> None:
    """Its manifest calls an attempt an incarnation."""
    checkpoints_at(tmp_path, attempt=2).write(7, {}, writes("seven"))
    (folder,) = tmp_path.iterdir()
    body = manifest.parse_manifest((folder / MANIFEST).read_bytes(), "it")
    body["incarnation"] = body.pop("attempt")
    (folder / MANIFEST).write_bytes(manifest.manifest_bytes(body))
    found = checkpoints_at(tmp_path, attempt=3).newest()
    assert found is not None and (found.step, found.attempt) == (7, 2) and read(found) == "seven"
