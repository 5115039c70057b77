"""Checkpoints in an object store: complete or absent, the newest readable one is used, and the last one is never lost."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

fsspec = pytest.importorskip("fsspec")

import rota  # noqa: E402
from rota.errors import CheckpointError, OptionError  # noqa: E402
from rota.train.checkpoint import Checkpoints, checkpoints_at  # noqa: E402
from rota.train.folder_checkpoints import FolderCheckpointStore  # noqa: E402
from rota.train.manifest import CompleteCheckpoint, manifest_bytes, parse_manifest  # noqa: E402
from rota.train.object_checkpoints import ObjectCheckpointStore  # noqa: E402
from rota.train.object_store import FolderObjectStore, ObjectStore, open_object_store  # noqa: E402
from rota.train.rank_environment import JobEnvironment  # noqa: E402
from rota.train.rank_store import FolderRankStore, ObjectRankStore, RankStore  # noqa: E402
from rota.train.session import CheckpointWarning, Session, YieldExit  # noqa: E402
from tests.examples import examples  # noqa: E402
from tests.unit.train.stores import LibraryError, SmallStore  # noqa: E402

PACKAGES = str(Path(rota.__file__).parents[1])


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def memory() -> Iterator[str]:
    """The URL of a place in memory."""
    url = f"memory://stored-{os.getpid()}"
    yield url
    open_object_store("memory://").delete(f"stored-{os.getpid()}")


@pytest.fixture
def small() -> Iterator[type[SmallStore]]:
    yield SmallStore
    SmallStore.room, SmallStore.down = 1 << 40, None
    SmallStore.store.clear()


@pytest.fixture(params=["memory", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path, memory: str) -> str:
    return memory if request.param == "memory" else f"file://{tmp_path}/store/a"


def store(url: str, attempt: int = 1, keep: int = 2) -> Checkpoints:
    return checkpoints_at(url, attempt=attempt, keep=keep)


def writes(text: str) -> Callable[[Path], None]:
    def save(folder: Path) -> None:
        (folder / "deep").mkdir()
        (folder / "empty").mkdir()
        (folder / "deep" / "state").write_text(text)
        (folder / "more").write_bytes(b"\0" * 1000)

    return save


def read(found: CompleteCheckpoint | None) -> str:
    assert found is not None
    return (found.rank_folder(0) / "deep" / "state").read_text()


def names(url: str) -> list[str]:
    return open_object_store(url).names()


def whole(*stems: str) -> list[str]:
    return sorted(name for stem in stems for name in (stem, f"{stem}.json"))


def keys(url: str) -> list[str]:
    files, base = fsspec.core.url_to_fs(url)
    return sorted(files.find(base))


def test_what_is_written_is_found_again(url: str, scratch: Path) -> None:
    made = store(f"{url}/", 3)
    assert made.newest() is None
    made.write(120, {"epoch": 2, "offset": 7}, writes("x"))
    again = store(url, 4)
    found = again.newest()
    assert found is not None and (found.step, found.attempt, found.facts) == (120, 3, {"epoch": 2, "offset": 7})
    assert read(found) == "x" and (found.rank_folder(0) / "empty").is_dir()
    assert names(url) == whole("step-000000000120.i3.1")
    again.release(found)
    assert list(scratch.iterdir()) == []


def test_one_that_saves_nothing_is_loaded_from_an_empty_folder(url: str) -> None:
    store(url).write(1, {}, lambda folder: None)
    found = store(url).newest()
    assert found is not None and list(found.rank_folder(0).iterdir()) == []


def test_old_ones_are_collected(url: str) -> None:
    made = store(url)
    for step in range(9, 13):
        made.write(step, {}, writes(str(step)))
    assert names(url) == whole("step-000000000011.i1.3", "step-000000000012.i1.4")
    assert len(keys(url)) == 2 * 3, "and their data"


def test_a_name_that_begins_alike_is_another(url: str) -> None:
    objects = open_object_store(url)
    for key in ("a.i1.1/x", "a.i1.1.json", "a.i1.10/x", "a.i1.10.json"):
        objects.put(key, b"x")
    objects.delete("a.i1.1")
    assert objects.names() == ["a.i1.1.json", "a.i1.10", "a.i1.10.json"]
    objects.delete("a.i1.1")


def test_a_late_process_of_an_earlier_attempt_neither_pushes_in_front_nor_removes(url: str) -> None:
    late = store(url, 1, keep=1)
    late.write(100, {}, writes("first"))
    new = store(url, 2, keep=3)
    for step in (150, 160, 170):
        new.write(step, {}, writes(str(step)))
    open_object_store(url).put("step-000000000180.i2.4/beef/rank-0/x", b"the next one, being written")
    late.write(900, {}, writes("late"))
    left = [f"step-000000000{step}.i2.{number}" for number, step in enumerate((150, 160, 170), 1)]
    assert names(url) == sorted([*whole(*left), "step-000000000180.i2.4"])
    assert read(store(url, 3).newest()) == "170"


def test_what_another_job_left_is_gone_on_with(url: str) -> None:
    """The user names a place, and the new job counts its attempts from 1."""
    store(url, 5).write(100, {}, writes("old"))
    made = store(url, 1)
    assert read(made.newest()) == "old"
    made.write(101, {}, writes("new"))
    assert read(store(url, 2).newest()) == "new"


@examples(40)
@given(data=st.data())
def test_a_torn_one_is_told_and_the_one_before_is_used(data: st.DataObject) -> None:
    """Whatever a store, a network or a person does to any object of it."""
    url = f"memory://torn-{os.getpid()}"
    files, base = fsspec.core.url_to_fs(url)
    try:
        made = store(url)
        made.write(10, {}, writes("before"))
        made.write(20, {}, writes("newest" * 100))
        victim = data.draw(st.sampled_from([key for key in keys(url) if "step-000000000020" in key]))
        content = files.cat_file(victim)
        how = data.draw(st.sampled_from(["cut", "flip", "gone", "empty"]))
        if how == "gone":
            files.rm_file(victim)
        else:
            place = data.draw(st.integers(0, len(content) - 1))
            flipped = content[:place] + bytes([content[place] ^ (1 << data.draw(st.integers(0, 7)))]) + content[place + 1 :]
            files.pipe_file(victim, {"cut": content[:place], "empty": b"", "flip": flipped}[how])
        again = store(url, 2)
        assert read(again.newest()) == "before"
        never_counted = how == "gone" and victim.endswith(".json")
        assert len(again.torn) == (0 if never_counted else 1)
        assert never_counted or "step-000000000020.i1.2" in again.torn[0]
        again.write(30, {}, writes("after"))
        assert names(url) == whole("step-000000000010.i1.1", "step-000000000030.i2.1"), (
            "the torn one is gone, the good one is kept"
        )
    finally:
        files.rm(base, recursive=True)


def test_a_manifest_can_name_no_other_file_of_this_machine(memory: str, tmp_path: Path) -> None:
    made = store(memory)
    made.write(10, {}, writes("before"))
    made.write(20, {}, writes("newest"))
    objects = open_object_store(memory)
    body = parse_manifest(objects.get("step-000000000020.i1.2.json"), "it")
    for name in ("../../../evil", f"{tmp_path}/evil"):
        files = {**body["files"], name: body["files"]["rank-0/more"]}
        objects.put("step-000000000020.i1.2.json", manifest_bytes({**body, "files": files}))
        again = store(memory, 2)
        assert read(again.newest()) == "before" and "is not in the checkpoint" in again.torn[0]
    assert not list(tmp_path.rglob("evil"))


# Stores that are full, or can't be reached.


def test_a_full_store_is_told_and_loses_nothing(small: type[SmallStore], scratch: Path) -> None:
    made = store("small://s/a")
    made.write(10, {}, writes("before"))
    used = sum(each.size for each in small.store.values())
    for room in (used, used + 500, used + 1006, used + 1100):  # for nothing, half of it, all but the manifest, half of that
        small.room = room
        with pytest.raises(CheckpointError) as error:
            made.write(20, {}, writes("second"))
        assert error.value.message == (
            "The checkpoint of step 20 could not be written to small://s/a: No space left on device. The one of step 10 is kept."
        )
        assert "make room" in error.value.hint
        assert names("small://s/a") == whole("step-000000000010.i1.1"), "what was begun is gone, so there is room again"
    small.room = 1 << 40
    made.write(30, {}, writes("after"))
    assert read(store("small://s/a", 2).newest()) == "after"
    assert [path.name.split(".")[1] for path in scratch.iterdir()] == ["i2"], "the one that was found last"


@pytest.mark.parametrize("error", [ConnectionError("no route"), LibraryError("no credentials")])
def test_a_store_that_cannot_be_reached_is_neither_empty_nor_torn(small: type[SmallStore], error: Exception) -> None:
    made = store("small://s/a")
    made.write(10, {}, writes("before"))
    small.down = error
    with pytest.raises(CheckpointError, match=r"The checkpoints in small://s/a can't be read: .*no (route|credentials)"):
        store("small://s/a", 2)
    with pytest.raises(CheckpointError, match="can't be read"):
        made.newest()
    with pytest.raises(CheckpointError, match=r"could not be written to .*no (route|credentials)\. The one of step 10 is kept"):
        made.write(20, {}, writes("second"))
    assert made.torn == []
    small.down = None
    assert read(made.newest()) == "before"


def test_a_disk_that_is_too_small_to_load_from_a_store_does_not_make_it_torn(
    memory: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store(memory).write(10, {}, writes("before"))
    made = store(memory, 2)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(CheckpointError, match="can't be read: No such file or directory"):
        made.newest()
    with pytest.raises(CheckpointError, match="could not be written to memory"):
        made.write(20, {}, writes("x"))
    assert made.torn == [] and names(memory) == whole("step-000000000010.i1.1")


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("only root can mount a small disk")
    try:
        made = store(f"file://{folder}/ckpt")
        made.write(10, {}, writes("before"))
        with pytest.raises(CheckpointError, match=r"No space left on device\. The one of step 10 is kept"):
            made.write(20, {}, lambda part: (part / "large").write_bytes(b"x" * (2 << 20)))
        made.write(30, {}, writes("after"))
        assert read(store(f"file://{folder}/ckpt", 2).newest()) == "after"
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


# Processes that are killed.

WRITER = """
import sys
import tests.unit.train.stores
from rota.train.checkpoint import checkpoints_at
made = checkpoints_at(sys.argv[1], None, attempt=int(sys.argv[2]))
found = made.newest()
if found is not None:
    print((found.rank_folder(0) / "a").read_text(), flush=True)
    made.release(found)
def save(folder):
    (folder / "a").write_text(sys.argv[2])
    (folder / "b").write_text("b" * 1000)
made.write(10 * int(sys.argv[2]), {}, save)
"""


def test_killed_in_the_middle_of_any_object_the_one_before_is_used(tmp_path: Path, scratch: Path) -> None:
    place = f"deadly://{tmp_path}/store"
    env = {"PYTHONPATH": PACKAGES, "TMPDIR": str(scratch)}

    def run(attempt: int, kill_at: int) -> tuple[int, str]:
        command = [sys.executable, "-c", WRITER, place, str(attempt)]
        done = subprocess.run(
            command, env={**env, "ROTA_TEST_KILL_AT": str(kill_at)}, cwd=PACKAGES, capture_output=True, text=True
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode, done.stdout.strip()

    assert run(1, 0) == (0, "")
    for attempt, kill_at in enumerate((1, 2, 3), 2):  # in its first file, in its second, in the manifest
        assert run(attempt, kill_at) == (-signal.SIGKILL, "1")
    assert run(5, 0) == (0, "1")
    assert names(place) == whole("step-000000000010.i1.1", "step-000000000050.i5.1"), "what was begun is gone"
    assert list(scratch.iterdir()) == [], "here too"


# Several ranks.


def in_ranks(url: str, board: RankStore, count: int, save: Callable[[Path, int], object]) -> list[object]:
    """What each rank's write gave or raised."""
    found: list[object] = [None] * count

    def rank(number: int) -> None:
        made = checkpoints_at(url, board, rank=number, world_size=count)
        made.written = 0
        try:
            found[number] = made.write(7, {}, lambda part: save(part, number))
        except CheckpointError as error:
            found[number] = error

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.fixture(params=["folder", "objects"])
def board(request: pytest.FixtureRequest, tmp_path: Path, memory: str) -> RankStore:
    return (
        FolderRankStore(tmp_path / "board")
        if request.param == "folder"
        else ObjectRankStore(open_object_store(memory), "ranks.i1.0")
    )


def test_ranks_write_one_checkpoint_together(memory: str, board: RankStore, scratch: Path) -> None:
    def save(part: Path, rank: int) -> None:
        (part / "mine").write_text(str(rank))
        beside = part.parent / "rank-0" / "state"  # as Accelerate does
        beside.mkdir(parents=True)
        (beside / f"random-{rank}").write_text(str(rank))

    found = in_ranks(memory, board, 3, save)
    assert all(isinstance(each, CompleteCheckpoint) for each in found), found
    assert list(scratch.iterdir()) == []
    (name,) = [name.removesuffix(".json") for name in names(memory) if name.endswith(".json")]
    first = store(memory, 2).newest()
    assert first is not None and first.world_size == 3
    kept = {path.relative_to(first.folder).parts[0] for path in first.folder.rglob("*") if path.is_file()}
    assert kept == {"rank-0"}, "it has read the others' parts, and keeps its own"
    for rank in (1, 2, 6):
        made = checkpoints_at(memory, board, attempt=2, rank=rank, world_size=7)
        part = made.named(name)
        assert (part.rank_folder(rank) / "mine").read_text() == str(rank if rank < 3 else 0)
        assert sorted(path.name for path in (part.folder / "rank-0" / "state").iterdir()) == ["random-0", "random-1", "random-2"]


def test_if_one_rank_cannot_save_none_has_saved(memory: str, board: RankStore) -> None:
    def save(part: Path, rank: int) -> None:
        if rank == 2:
            raise OSError(28, os.strerror(28))
        (part / "mine").write_text(str(rank))

    found = in_ranks(memory, board, 4, save)
    assert all(isinstance(each, CheckpointError) for each in found), found
    assert all("rank 2: No space left on device in " in each.message for each in found)  # type: ignore[attr-defined]
    assert [name for name in names(memory) if name.startswith("step")] == []


def test_if_save_raises_on_one_rank_the_others_do_not_wait(memory: str, board: RankStore) -> None:
    def save(part: Path, rank: int) -> None:
        if rank == 1:
            raise ValueError("no such tensor")

    found = in_ranks(memory, board, 3, save)
    assert all(isinstance(each, CheckpointError) for each in found), found
    assert all("rank 1: save raised ValueError: no such tensor" in each.message for each in found)  # type: ignore[attr-defined]


# Sessions.


class Run:
    """A made-up training run that writes down everything it does; what it saves is all that it did."""

    def __init__(self, folder: Path, place: str) -> None:
        self.folder, self.place = folder, place
        self.done: list[int] = []
        self.attempt = 0

    def once(self, stop_after: int | None) -> int | None:
        """Run until it is done, or told to stop after so many steps. The step it left at."""
        self.attempt += 1
        self.done = []
        where = JobEnvironment(self.folder, self.place, self.attempt)
        save = lambda folder: (folder / "done").write_text(json.dumps(self.done))  # noqa: E731
        load = lambda folder: self.done.extend(json.loads((folder / "done").read_text()))  # noqa: E731
        before = signal.getsignal(signal.SIGTERM)
        try:
            with Session(save, load, environment=where, every_seconds=None) as job:
                for number, batch in enumerate(job.steps(range(12)), 1):
                    self.done.append(batch)
                    if number == stop_after:
                        os.kill(os.getpid(), signal.SIGTERM)
        except YieldExit as left:
            return left.step
        finally:
            signal.signal(signal.SIGTERM, before)
        return None


def test_a_session_goes_on_from_a_store(url: str, tmp_path: Path, scratch: Path) -> None:
    run = Run(tmp_path, url)
    assert [run.once(stop) for stop in (3, 1, 5, None)] == [3, 4, 9, None]
    assert run.done == list(range(12))
    assert list(scratch.iterdir()) == [], "what was loaded is gone"
    newest = max(key for key in keys(url) if key.endswith("rank-0/done"))
    fsspec.core.url_to_fs(url)[0].pipe_file(newest, b"[]")
    with pytest.warns(CheckpointWarning, match=r"has 2 bytes and should have \d+\. The checkpoint before it is used"):
        assert run.once(None) is None
    assert run.done == list(range(12))


def test_a_folder_may_be_given_as_a_url(memory: str) -> None:
    with Session(lambda folder: None, lambda folder: None, folder=memory, every_seconds=0.0) as job:
        assert len(list(job.steps(range(3)))) == 3
    assert [name for name in names(memory) if name.endswith("3.json")] == ["step-000000000003.i1.3.json"]


# Which store.


def test_a_url_is_a_store_and_a_path_is_a_folder(tmp_path: Path, memory: str) -> None:
    assert isinstance(checkpoints_at(tmp_path).store, FolderCheckpointStore)
    assert isinstance(checkpoints_at(memory).store, ObjectCheckpointStore)
    assert type(open_object_store(memory)) is ObjectStore and type(open_object_store(f"file://{tmp_path}")) is FolderObjectStore
    with pytest.raises(OptionError, match=r"checkpoint\.dir: 'nope://a/b' — can't be opened: Protocol not known: nope"):
        open_object_store("nope://a/b")


@pytest.mark.parametrize(
    ("missing", "said"),
    [("fsspec", "takes the package fsspec"), ("s3fs", "can't be reached: Install s3fs")],
)
def test_a_package_that_is_missing_is_named(missing: str, said: str) -> None:
    code = (
        f"import sys\nsys.modules[{missing!r}] = None\nfrom rota import train\nfrom rota.errors import OptionError\n"
        "try:\n    train.session(lambda folder: None, lambda folder: None, folder='s3://bucket/a')\n"
        "except OptionError as error:\n    print(error.message, '|', error.hint)"
    )
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": PACKAGES}, capture_output=True, text=True, check=True)
    assert said in done.stdout and done.stdout.endswith("| pip install fsspec s3fs\n")
