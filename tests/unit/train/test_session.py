"""Sessions: the same loop under Rota and outside it, interrupted or not."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rota
from rota import train
from rota.agent import datagrams
from rota.agent.disk import REPORT_SOCKET
from rota.errors import CheckpointError, OptionError
from rota.train.checkpoint import checkpoints_at
from rota.train.rank_environment import JobEnvironment, read_rank_environment
from rota.train.session import CheckpointWarning, Session, YieldExit
from tests.examples import examples

PACKAGES = str(Path(rota.__file__).parents[1])


@pytest.fixture(autouse=True)
def signals_as_they_were() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


class Run:
    """A made-up training run that writes down everything it does; what it saves is all that it did."""

    def __init__(self, folder: Path, epochs: int, batches: int, **options: object) -> None:
        self.folder, self.epochs, self.batches, self.options = folder, epochs, batches, options
        self.done: list[object] = []
        self.attempt = 0

    def save(self, folder: Path) -> None:
        (folder / "done").write_text(repr(self.done))

    def load(self, folder: Path) -> None:
        self.done = eval((folder / "done").read_text())

    def once(self, stop_after: int | None) -> int | None:
        """Run until it is done, or told to stop after so many steps of this attempt. The step it left at."""
        self.attempt += 1
        self.done = []
        where = JobEnvironment(self.folder, self.folder / "ckpt", self.attempt)
        made = 0
        try:
            with Session(self.save, self.load, environment=where, every_seconds=None, **self.options) as job:  # type: ignore
                if stop_after == 0:
                    os.kill(os.getpid(), signal.SIGTERM)
                for epoch in job.epochs(self.epochs):
                    for batch in job.steps(range(self.batches)):
                        self.done.append((epoch, batch))
                        made += 1
                        if made == stop_after:
                            os.kill(os.getpid(), signal.SIGTERM)
                    self.done.append(f"behind {epoch}")
        except YieldExit as left:
            assert left.code == 75
            return left.step
        return None


def whole(epochs: int, batches: int) -> list[object]:
    return [each for epoch in range(epochs) for each in [*((epoch, batch) for batch in range(batches)), f"behind {epoch}"]]


@examples(25)
@given(
    epochs=st.integers(1, 3),
    batches=st.integers(1, 4),
    stops=st.lists(st.integers(0, 5), max_size=6),
)
def test_interrupted_anywhere_it_does_everything_once(
    tmp_path_factory: pytest.TempPathFactory, epochs: int, batches: int, stops: list[int]
) -> None:
    run = Run(tmp_path_factory.mktemp("run"), epochs, batches)
    for stop in stops:
        if run.once(stop) is None:
            break
    else:
        assert run.once(None) is None
    assert run.done == whole(epochs, batches)


@pytest.mark.parametrize("batches", [1, 3])
def test_suspended_with_the_last_step_of_every_epoch_it_never_begins_with_an_empty_one(tmp_path: Path, batches: int) -> None:
    """What stands behind the inner loop uses what the loop has set, and must have run when the job is suspended."""
    run, epochs = Run(tmp_path, 4, batches), 4
    for epoch in range(epochs - 1):
        assert run.once(batches) == batches * (epoch + 1)
        assert run.done[-1] == f"behind {epoch}", "it was suspended behind that, not before"
        facts = checkpoints_at(tmp_path / "ckpt").newest()
        assert facts is not None and (facts.facts["epoch"], facts.facts["offset"]) == (epoch + 1, 0)
    assert run.once(batches) is None, "with the last step of all it has only to end, and is not made to begin again for that"
    assert run.done == whole(epochs, batches)


EPOCHS_OF_ONE_STEP = """
import json, os, signal, sys
from pathlib import Path
from rota import train

done = []

def save(folder):
    (folder / "done").write_text(json.dumps(done))

def load(folder):
    done[:] = json.loads((folder / "done").read_text())

with train.session(save, load) as job:
    began = job.step
    for epoch in job.epochs(12):
        for batch in job.steps([7]):
            loss = epoch * batch
            if job.step == began and os.environ["RANK"] == "0":
                os.kill(os.getpid(), signal.SIGTERM)
        done.append(loss)
Path(sys.argv[1], "rank-" + os.environ["RANK"]).write_text(json.dumps(done))
"""


def test_ranks_that_are_suspended_with_the_last_step_of_an_epoch_resume_behind_it(tmp_path: Path) -> None:
    """With one step in each epoch every step is the last one. That was a NameError of every rank."""
    (tmp_path / "run").mkdir()
    folders = {"ROTA_RUN_DIR": str(tmp_path / "run"), "ROTA_CHECKPOINT_DIR": str(tmp_path / "ckpt"), "ROTA_JOB_ID": "1"}
    left = []
    for attempt in range(1, 13):
        env = {"PYTHONPATH": PACKAGES, **folders, "ROTA_ATTEMPT": str(attempt), "WORLD_SIZE": "2"}
        command = [sys.executable, "-c", EPOCHS_OF_ONE_STEP, str(tmp_path)]
        ranks = [subprocess.Popen(command, env={**env, "RANK": str(rank)}) for rank in range(2)]
        codes = [rank.wait(timeout=120) for rank in ranks]
        left.append(codes)
        assert codes in ([75, 75], [0, 0]), codes
        if codes == [0, 0]:
            break
    assert [0, 0] in left and left.count([75, 75]) >= 2, "it was suspended some times, and ended"
    for rank in range(2):
        assert json.loads((tmp_path / f"rank-{rank}").read_text()) == [7 * epoch for epoch in range(12)]


def test_what_is_done_is_not_stopped_any_more(tmp_path: Path) -> None:
    """Told to stop when the last step is done, and while it ends: it ends as it would have."""
    with Session(lambda folder: None, lambda folder: None, environment=JobEnvironment(tmp_path, tmp_path)) as job:
        assert len(list(job.steps(range(3)))) == 3
        os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(("end", "code"), [("", 0), ("os.kill(os.getpid(), 15)", 75)])
def test_while_it_ends_it_cannot_be_stopped(tmp_path: Path, end: str, code: int) -> None:
    """Python gives up its handlers of signals early when it ends, and PyTorch takes a second after that."""
    script = (
        "import os\nfrom rota import train\n"
        "class Late:\n    def __del__(self):\n        os.kill(os.getpid(), 15)\n"
        "late = Late()\n"
        "with train.session(lambda folder: None, lambda folder: None) as job:\n"
        f"    for _ in job.steps(range(3)):\n        {end or 'pass'}\n"
    )
    env = {"PYTHONPATH": PACKAGES, "ROTA_RUN_DIR": str(tmp_path), "ROTA_CHECKPOINT_DIR": str(tmp_path), "ROTA_JOB_ID": "1"}
    assert subprocess.run([sys.executable, "-c", script], env=env).returncode == code


@pytest.mark.parametrize(("end", "code"), [("pass", 0), ("os.kill(os.getpid(), 15)", 75)])
def test_a_suspended_job_ends_without_looking_for_garbage_and_loses_no_file(tmp_path: Path, end: str, code: int) -> None:
    """A file that was left open, held by what only the search for garbage would find; and a cleanup that the script asked for."""
    script = (
        "import atexit, gc, os\nfrom rota import train\n"
        "class Logger:\n    def __init__(self):\n        self.file, self.itself = open('metrics.txt', 'w'), self\n"
        "atexit.register(lambda: print('frozen', gc.get_freeze_count() > 0))\n"
        "logger = Logger()\n"
        "with train.session(lambda folder: None, lambda folder: None) as job:\n"
        "    for step in job.steps(range(3)):\n"
        f"        logger.file.write(f'step {{step}}; ')\n        {end}\n"
    )
    env = {"PYTHONPATH": PACKAGES, "ROTA_RUN_DIR": str(tmp_path), "ROTA_CHECKPOINT_DIR": str(tmp_path), "ROTA_JOB_ID": "1"}
    done = subprocess.run([sys.executable, "-c", script], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout == f"frozen {code == 75}\n"
    assert (tmp_path / "metrics.txt").read_text() == ("step 0; step 1; step 2; " if code == 0 else "step 0; ")


def test_after_an_error_signals_are_as_they_were(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with (
        pytest.raises(ZeroDivisionError),
        Session(lambda folder: None, lambda folder: None, environment=JobEnvironment(tmp_path, tmp_path)),
    ):
        assert signal.getsignal(signal.SIGTERM) is not before
        _ = 1 / 0
    assert signal.getsignal(signal.SIGTERM) is before


def test_passes_without_epochs_are_skipped_when_they_are_done(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    state = {"n": 0}

    def loop(attempt: int, stop_at: int | None) -> None:
        where = JobEnvironment(tmp_path, tmp_path / "ckpt", attempt)
        with Session(lambda folder: (folder / "n").touch(), lambda folder: None, environment=where) as job:
            for epoch in range(3):
                for batch in job.steps(range(4)):
                    seen.append((epoch, batch))
                    state["n"] += 1
                    if state["n"] == stop_at:
                        os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(YieldExit):
        loop(1, 6)
    loop(2, None)
    assert seen == [(epoch, batch) for epoch in range(3) for batch in range(4)]


def test_lines_of_a_file_are_batches_too(tmp_path: Path) -> None:
    """A file has a method `seek`, which means something else."""
    (tmp_path / "data").write_text("a\nb\nc\n")
    with (tmp_path / "data").open() as lines, train.session() as job:
        assert [line.strip() for line in job.steps(lines)] == ["a", "b", "c"]


def test_a_pass_that_is_left_early_is_over(tmp_path: Path) -> None:
    seen = []
    with train.session() as job:
        for epoch in job.epochs(3):
            for batch in job.steps(range(10)):
                seen.append((epoch, batch))
                if batch == 1:
                    break
    assert seen == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]


def test_outside_rota_it_is_a_plain_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("ROTA_")]:
        monkeypatch.delenv(name)
    before = signal.getsignal(signal.SIGTERM)
    saved: list[Path] = []
    with train.session(save=saved.append, load=saved.append, every_seconds=0.0) as job:
        assert signal.getsignal(signal.SIGTERM) is before, "no signal is touched"
        for batch in job.steps([1, 2, 3]):
            job.log(loss=batch)
        train.report(3, 3, loss=0.5)
    assert job.step == 3 and not job.stop_requested and not job.resumed
    assert saved == [] and list(tmp_path.iterdir()) == []


def test_outside_rota_a_folder_may_be_given(tmp_path: Path) -> None:
    seen: list[int] = []

    def once(most: int) -> None:
        state: dict[str, str] = {}
        save = lambda folder: (folder / "x").write_text("x")  # noqa: E731
        with train.session(
            save, lambda folder: state.update(x=(folder / "x").read_text()), folder=tmp_path, every_seconds=0
        ) as job:
            for batch in job.steps(range(10)):
                if len(seen) == most:
                    raise KeyboardInterrupt
                seen.append(batch)

    with pytest.raises(KeyboardInterrupt):
        once(4)
    once(99)
    assert seen == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_outside_rota_ranks_have_no_checkpoints(tmp_path: Path) -> None:
    where = JobEnvironment(rank=0, world_size=2)
    with pytest.warns(CheckpointWarning, match="Outside Rota 2 ranks have no checkpoints"):
        job = Session(lambda folder: None, lambda folder: None, folder=tmp_path, environment=where)
    with job:
        assert list(job.steps([1, 2])) == [1, 2]


def test_it_tells_steps_totals_and_metrics(tmp_path: Path) -> None:
    box = datagrams.listen(tmp_path, REPORT_SOCKET)
    where = JobEnvironment(tmp_path, tmp_path / "ckpt", 1)
    with Session(lambda folder: None, lambda folder: None, environment=where) as job:
        for epoch in job.epochs(2):
            for _ in job.steps(range(3)):
                job.log(loss=0.5 + epoch, bad=float("nan"), word="x")
    told = [eval(each, {"true": True}) for each in datagrams.receive(box, 99)]
    box.close()
    assert told[0] == {"op": "report", "steps_done": 0, "steps_saved": 0, "saves": True}
    assert told[1] == {"op": "report", "steps_done": 1, "steps_total": 6, "steps_saved": 0, "metrics": {"loss": 0.5}}
    assert told[-1] == {"op": "report", "steps_done": 6, "steps_total": 6, "steps_saved": 0, "metrics": {"loss": 1.5}}


def test_a_tensor_is_read_only_when_it_is_sent(tmp_path: Path) -> None:
    reads = []

    class Lazy:
        def detach(self) -> "Lazy":
            return self

        def __float__(self) -> float:
            reads.append(1)
            return 1.0

    where = JobEnvironment(tmp_path, tmp_path / "ckpt", 1)
    with Session(lambda folder: None, lambda folder: None, environment=where) as job:
        for _ in job.steps(range(1000)):
            job.log(loss=Lazy())
    assert 1 <= len(reads) < 100


def test_a_session_that_cannot_save_is_ended_by_the_signal_as_before(tmp_path: Path) -> None:
    script = (
        "import os, signal\nfrom rota import train\n"
        "with train.session() as job:\n    for _ in job.steps(range(9)):\n        os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    env = {"PYTHONPATH": PACKAGES, "ROTA_RUN_DIR": str(tmp_path), "ROTA_CHECKPOINT_DIR": str(tmp_path), "ROTA_JOB_ID": "1"}
    assert subprocess.run([sys.executable, "-c", script], env=env).returncode == -signal.SIGTERM


def test_a_checkpoint_now_and_then_that_fails_does_not_end_the_run(tmp_path: Path) -> None:
    (tmp_path / "ckpt").write_text("a file is in the way")
    where = JobEnvironment(tmp_path, tmp_path / "ckpt", 1)
    job = Session(lambda folder: None, lambda folder: None, environment=where, every_seconds=0.0)
    with pytest.warns(CheckpointWarning, match=r"could not be written to .*Training continues"), job:
        assert len(list(job.steps(range(3)))) == 3


def test_leaving_without_being_able_to_save_is_an_error_and_the_last_checkpoint_stays(tmp_path: Path) -> None:
    run = Run(tmp_path, 1, 10)
    assert run.once(3) == 3
    save, run.save = run.save, lambda folder: (folder / "missing" / "x").write_text("")  # type: ignore[method-assign]
    with pytest.raises(CheckpointError, match=r"step 5 could not be written .* The one of step 3 is kept"):
        run.once(2)
    run.save = save  # type: ignore[method-assign]
    assert run.once(None) is None
    assert run.done == whole(1, 10)


def test_a_torn_checkpoint_is_told_and_the_one_before_is_used(tmp_path: Path) -> None:
    run = Run(tmp_path, 2, 10)
    assert (run.once(3), run.once(4)) == (3, 7)
    newest = max((tmp_path / "ckpt").glob("step-*/rank-0/done"))
    newest.write_text(newest.read_text()[:-5])
    with pytest.warns(CheckpointWarning, match=r"has \d+ bytes and should have \d+\. The checkpoint before it is used"):
        assert run.once(None) is None
    assert run.done == whole(2, 10)


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="load — is missing"):
        train.session(save=lambda folder: None)
    with pytest.raises(OptionError, match="RANK: 'x' — is not a whole number"):
        read_rank_environment({"RANK": "x"})
    with pytest.raises(OptionError, match="RANK: 4 — is not a rank of 4"):
        read_rank_environment({"RANK": "4", "WORLD_SIZE": "4"})
    with pytest.raises(OptionError, match="ROTA_CHECKPOINT_DIR — is not set"):
        Session(lambda folder: None, lambda folder: None, environment=JobEnvironment(tmp_path))
    found: list[BaseException] = []

    def elsewhere() -> None:
        where = JobEnvironment(tmp_path, tmp_path)
        try:
            Session(lambda folder: None, lambda folder: None, environment=where).__enter__()
        except OptionError as error:
            found.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "not in the main thread" in str(found[0])


def test_two_homes_may_share_a_folder() -> None:
    variables = {"ROTA_RUN_DIR": "/r", "ROTA_CHECKPOINT_DIR": "/c", "ROTA_JOB_ID": "1"}
    keys = [read_rank_environment({**variables, "ROTA_JOB_KEY": key}).checkpoint_folder for key in ("aa-1", "bb-1")]
    assert keys == [Path("/c/rota-aa-1"), Path("/c/rota-bb-1")]


def test_a_url_stays_as_it_is() -> None:
    variables = {"ROTA_RUN_DIR": "/r", "ROTA_JOB_KEY": "aa-1"}
    for place in ("s3://bucket/ckpt", "s3://bucket/ckpt/"):
        assert (
            read_rank_environment({**variables, "ROTA_CHECKPOINT_DIR": place}).checkpoint_folder == "s3://bucket/ckpt/rota-aa-1"
        )


@pytest.mark.parametrize("ranks", [{}, {"RANK": "0", "WORLD_SIZE": "1"}])
def test_parts_on_several_nodes_that_cannot_be_told_apart_do_not_start(tmp_path: Path, ranks: dict[str, str]) -> None:
    """Each would take itself for the first, and write over the checkpoints of the others."""
    variables = {"ROTA_CHECKPOINT_DIR": str(tmp_path), "ROTA_JOB_ID": "1", "NNODES": "2", "NODE_RANK": "1", **ranks}
    under_rota = read_rank_environment({**variables, "ROTA_RUN_DIR": str(tmp_path)})
    for options in ({"save": print, "load": print}, {"framework_saves": True}):
        with pytest.raises(OptionError, match=r"RANK.* — is not set for each process on 2 nodes") as error:
            Session(environment=under_rota, **options)  # type: ignore[arg-type]
        assert "torchrun --nnodes $NNODES" in error.value.hint
    with pytest.raises(OptionError, match="RANK"):
        Session(print, print, folder=tmp_path, environment=read_rank_environment(variables))
    assert list(tmp_path.iterdir()) == []
    for where in (under_rota, read_rank_environment(variables)):  # that write nothing
        with Session(environment=where) as job:
            assert list(job.steps([1, 2])) == [1, 2]
    told = read_rank_environment({**variables, "ROTA_RUN_DIR": str(tmp_path), "RANK": "3", "WORLD_SIZE": "4"})
    assert Session(print, print, environment=told).environment.rank == 3


def test_it_imports_nothing_that_was_not_asked_for() -> None:
    code = (
        "import sys, rota.train\n"
        "heavy = {'numpy', 'torch', 'pydantic', 'yaml', 'rich', 'scipy', 'typer', 'fastapi', 'asyncio', 'fsspec'}\n"
        "print(sorted(heavy & set(sys.modules)), sorted(name for name in sys.modules if name.startswith('rota.')))"
    )
    env = {"PYTHONPATH": PACKAGES}
    said = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    assert said.startswith("[] ")
    assert all(name in said for name in ("rota.train.session", "rota.errors")) and "rota.core" not in said


@pytest.mark.parametrize(
    ("options", "named", "hint"),
    [
        ({"save": 1, "load": 2}, "save: 1", "def save(folder): ..."),
        ({"save": print, "load": 2}, "load: 2", "def load(folder): ..."),
        ({"every_seconds": -1}, "every_seconds: -1", "every_seconds=600"),
        ({"every_seconds": "often"}, "every_seconds: 'often'", "every_seconds=600"),
        ({"keep": 0}, "keep: 0", "keep=2"),
        ({"keep": 1.5}, "keep: 1.5", "keep=2"),
        ({"steps": "many"}, "steps: 'many'", "steps=1000"),
    ],
)
def test_options_that_can_only_be_mistakes_are_refused_at_once(options: dict[str, object], named: str, hint: str) -> None:
    with pytest.raises(OptionError) as told:
        train.session(**options)  # type: ignore[arg-type]
    assert told.value.message.startswith(named) and hint in told.value.hint


def test_a_session_inside_another_is_refused_and_one_after_another_is_not() -> None:
    for _ in range(2):
        with train.session() as job:
            assert list(job.steps(range(2))) == [0, 1]
            with pytest.raises(OptionError, match="inside the `with` block of another session"), train.session():
                pass


def test_a_loop_outside_the_with_block_is_refused() -> None:
    job = train.session(lambda folder: None, lambda folder: None)
    for use in (lambda: list(job.steps(range(3))), lambda: list(job.epochs(2)), job.step_done):
        with pytest.raises(OptionError, match="outside its `with` block") as told:
            use()
        assert "as job:" in told.value.hint
    with job:
        assert list(job.steps(range(3))) == [0, 1, 2]
    with pytest.raises(OptionError, match="outside its `with` block"):
        job.step_done()


def told_to(folder: Path) -> Iterator[dict[str, object]]:
    """Reports of a session with this run folder."""
    with datagrams.listen(folder, REPORT_SOCKET) as box:
        while True:
            found = [json.loads(each) for each in datagrams.receive(box, 64)]
            yield {name: value for report in found for name, value in report.items()}


def test_it_tells_that_it_saves_and_why_a_save_failed(tmp_path: Path) -> None:
    reports = told_to(tmp_path)
    next(reports)
    broken = [True]

    def save(folder: Path) -> None:
        if broken:
            raise OSError(28, "No space left on device")

    where = JobEnvironment(tmp_path, tmp_path / "ckpt")
    with Session(save, lambda folder: None, environment=where, every_seconds=0.0) as job:
        assert next(reports)["saves"] is True
        with pytest.warns(CheckpointWarning):
            job.step_done()
        assert "No space left on device" in str(next(reports)["saving_problem"])
        broken.clear()
        job.step_done()
        assert next(reports)["saving_problem"] == ""
        job.step_done()
        assert "saving_problem" not in next(reports)


def test_it_tells_what_a_save_raised_when_it_was_asked_to_leave(tmp_path: Path) -> None:
    reports = told_to(tmp_path)
    next(reports)

    def save(folder: Path) -> None:
        raise RuntimeError("no such tensor")

    where = JobEnvironment(tmp_path, tmp_path / "ckpt")
    with pytest.raises(RuntimeError), Session(save, lambda folder: None, environment=where) as job:
        os.kill(os.getpid(), signal.SIGTERM)
        job.step_done()
    assert next(reports)["saving_problem"] == "save raised RuntimeError: no such tensor"


def test_one_that_cannot_save_says_so(tmp_path: Path) -> None:
    reports = told_to(tmp_path)
    next(reports)
    with Session(environment=JobEnvironment(tmp_path)):
        assert next(reports)["saves"] is False
