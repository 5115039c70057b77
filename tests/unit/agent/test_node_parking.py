"""How a job of a cluster is parked, as found by the node that starts it."""

import sys
from pathlib import Path

from rota.agent import constants
from rota.agent.attempt_files import LaunchOrder
from rota.agent.node_parking import with_parking
from rota.park.park_environment import HOOK_FOLDER
from rota.park.park_method import DRIVER, PRELOAD


def order(*argv: str, **env: str) -> LaunchOrder:
    variables = {"PYTHONPATH": "/mine", **env}
    return LaunchOrder(3, 1, 1, argv, variables, "/", "/log", "n1:0", 0.0, 60.0, 60.0, 1.0, may_park=True)


def test_a_node_with_pretend_gpus_lets_it_sleep() -> None:
    found = with_parking(order(sys.executable, "train.py"), real_gpus=False)
    assert (found.park_method, found.job) == ("sleep", 3)
    assert found.env["ROTA_PARK"] == "sleep" and found.env["PYTHONPATH"] == f"{HOOK_FOLDER}:/mine"


def test_what_cannot_be_parked_gets_nothing() -> None:
    for argv, wanted, gpus, why in (
        ((sys.executable, "train.py"), False, 1, "its spec has park: false"),
        ((sys.executable, "train.py"), True, 2, "a job of several GPUs cannot be parked yet"),
        (("/bin/sleep", "9"), True, 1, "its command /bin/sleep is not Python"),
    ):
        plain = order(*argv)._replace(may_park=wanted, most_gpus=gpus)
        assert with_parking(plain, real_gpus=False) == plain._replace(park_method="exit", park_reason=why)


def test_with_real_gpus_it_goes_by_the_python_of_the_job(tmp_path: Path) -> None:
    """This one has a PyTorch with CUDA, and no allocator for it."""
    python = tmp_path / "bin/python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    (tmp_path / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
    version = tmp_path / "lib/python3.12/site-packages/torch/version.py"
    version.parent.mkdir(parents=True)
    version.write_text("cuda: str = '99.0'\n")
    found = with_parking(order(str(python), "train.py", PYTHONPATH=""), real_gpus=True)
    assert "torch_memory_saver for CUDA 99 is not installed" in found.park_reason


def test_agent_and_parking_have_the_same_names_of_methods() -> None:
    assert (constants.PRELOAD, constants.DRIVER) == (PRELOAD, DRIVER)
