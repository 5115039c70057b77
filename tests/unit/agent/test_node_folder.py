"""The folder of a node's agent is the user's own: a user who can write there can have commands run as that user."""

import json
import os
from pathlib import Path

import pytest

from rota.agent import supervisor
from rota.agent.attempt_files import LaunchOrder, read_order
from rota.agent.disk import LAUNCH, SUPERVISOR_LOCK
from rota.agent.node_agent import cluster_agent
from rota.agent.processes import boot_id, boot_s
from rota.errors import NotYours
from tests.stranger import STRANGER, as_stranger, root_only


def order(folder: Path) -> str:
    """An order that leaves a file behind if it is obeyed."""
    wanted = LaunchOrder(
        job=1,
        attempt=1,
        sequence=1,
        argv=["touch", str(folder / "obeyed")],
        env={"PATH": os.environ["PATH"]},
        workdir="/",
        log=str(folder / "log"),
        gpus_text="",
        from_step=0.0,
        boot_id=boot_id(),
        written_boot_s=boot_s(),
        lease_seconds=60.0,
        grace_seconds=1.0,
        lease_grace_seconds=1.0,
    )
    return json.dumps(wanted._asdict())


@root_only
def test_a_node_folder_that_another_user_made_first_is_refused(public: Path) -> None:
    """Who owns the folder above could put a launch.json of their own into the place of the agent's."""
    everyones = public / "var-tmp"
    everyones.mkdir()
    everyones.chmod(0o1777)
    squatted = everyones / "rota-root"

    def squat() -> None:
        squatted.mkdir()
        (squatted / "home").mkdir()
        for folder in (squatted, squatted / "home"):
            folder.chmod(0o777)

    assert as_stranger(squat) == 0
    for folder in (squatted / "home" / "n1", squatted / "n1", squatted):
        with pytest.raises(NotYours, match="belongs to user nobody") as problem:
            cluster_agent(folder, "n1", "127.0.0.1", accelerator="V100", pretend_gpus=2)
        assert "--node-dir" in problem.value.hint
    assert not list((squatted / "home").iterdir())


@root_only
def test_a_supervisor_refuses_a_folder_that_another_user_put_there(public: Path) -> None:
    """Between the order's writing and its reading."""
    everyones = public / "open"
    everyones.mkdir()
    everyones.chmod(0o1777)
    mine = public / "run" / "1" / "1"
    theirs = everyones / "run" / "1" / "1"

    text = order(public)

    def forge() -> None:
        theirs.mkdir(parents=True)
        (theirs / SUPERVISOR_LOCK).touch()
        (theirs / LAUNCH).write_text(text)

    assert as_stranger(forge) == 0
    with pytest.raises(NotYours, match="belongs to user nobody"):
        supervisor.main(str(theirs))
    assert not (public / "obeyed").exists()
    mine.mkdir(parents=True)
    (mine / LAUNCH).symlink_to(theirs / LAUNCH)
    assert read_order(mine) is None, "no link is followed"
    (mine / LAUNCH).unlink()
    (mine / LAUNCH).write_bytes((theirs / LAUNCH).read_bytes())
    assert read_order(mine) is not None
    os.chown(mine / LAUNCH, STRANGER, STRANGER)
    assert read_order(mine) is None, "nor is what another user wrote obeyed"


def test_without_a_folder_of_its_own_an_agent_is_in_the_state_folder_of_its_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", "relative, so it does not count")
    cluster_agent(Path("rota/nodes/x/n1"), "n1", "127.0.0.1", pretend_gpus=1).close()
    assert (tmp_path / "home/.local/state/rota/nodes/x/n1/boot.json").exists()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    cluster_agent(Path("rota/nodes/x/n1"), "n1", "127.0.0.1", pretend_gpus=1).close()
    assert (tmp_path / "state/rota/nodes/x/n1/boot.json").exists()
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
