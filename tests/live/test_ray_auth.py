"""Ray asks for a token, or Rota refuses it. Another Unix user can't run code on a cluster that was started as documented."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import rota
from tests.live.harness import until
from tests.live.ray_cluster import OPEN, SETTINGS, RayCluster

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow

NOBODY = 65534
PACKAGES = str(Path(rota.__file__).parents[1])
NO_TOKEN = "asks for no token: every user who can reach it can run code on its nodes"

ATTACK = """
# Join the cluster with a Ray of our own, and run a function on a node of its owner.
import os, sys
from ray._private import utils
utils.check_version_info = lambda *_, **__: None
import ray
from ray.scripts.scripts import main
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

address, folder = sys.argv[1:]
here = ["--node-ip-address=127.0.0.1", f"--temp-dir={folder}", "--num-cpus=0", "--object-store-memory=80000000"]
sys.argv = ["ray", "start", f"--address={address}", *here, "--disable-usage-stats", "--include-log-monitor=false"]
try:
    main()
except SystemExit as end:
    if end.code:
        raise
ray.init(address=address, _temp_dir=folder, log_to_driver=False, logging_level="ERROR")
mine = ray.get_runtime_context().get_node_id()
theirs = next(node["NodeID"] for node in ray.nodes() if node["Alive"] and node["NodeID"] != mine)
there = NodeAffinitySchedulingStrategy(theirs, soft=False)
print("uid there", ray.get(ray.remote(lambda: os.getuid()).options(num_cpus=0, scheduling_strategy=there).remote()))
"""


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    with contextlib.closing(RayCluster(tmp_path_factory.mktemp("ray"), storage=False)) as made:
        yield made


@pytest.fixture(scope="module")
def unauthenticated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    with contextlib.closing(RayCluster(tmp_path_factory.mktemp("ray"), settings=OPEN, storage=False)) as made:
        yield made


def command(folder: Path, *words: str, env: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    run = [sys.executable, "-m", "rota", *words]
    return subprocess.run(run, env={**os.environ, **env}, cwd=folder, capture_output=True, text=True, timeout=300)


UP, SWEEP = ("up", "--home", "home", "--listen", "127.0.0.1:0"), ("sweep", "fifo", "--out", "out")


@pytest.mark.parametrize(
    ("words", "env"),
    [
        pytest.param(UP, OPEN, id="up"),
        pytest.param(UP, SETTINGS, id="up-with-a-token", marks=pytest.mark.nightly),
        pytest.param(SWEEP, OPEN, id="sweep", marks=pytest.mark.nightly),
    ],
)
def test_a_cluster_without_a_token_is_refused_whatever_we_have(
    tmp_path: Path, unauthenticated: RayCluster, words: tuple[str, ...], env: Mapping[str, str]
) -> None:
    done = command(tmp_path, *words, "--ray", unauthenticated.address, env=env)
    assert done.returncode == 2 and NO_TOKEN in done.stderr, done.stderr
    assert "ray get-auth-token --generate" in done.stderr and "export RAY_AUTH_MODE=token" in done.stderr
    assert not (tmp_path / "home").exists(), "nothing was started"


@pytest.mark.nightly
def test_a_wrong_token_is_told_at_once(tmp_path: Path, documented: RayCluster) -> None:
    env = SETTINGS | {"RAY_AUTH_TOKEN": "another"}
    done = command(tmp_path, *UP, "--ray", documented.address, env=env)
    assert done.returncode == 2 and "missing or wrong" in done.stderr


@pytest.mark.nightly
def test_a_token_that_others_can_read_is_refused(tmp_path: Path, documented: RayCluster) -> None:
    folder = Path(documented._sockets)  # others may enter it
    folder.chmod(0o755)
    token = folder / "token"
    token.write_text(SETTINGS["RAY_AUTH_TOKEN"])
    token.chmod(0o644)
    env = SETTINGS | {"RAY_AUTH_TOKEN": "", "RAY_AUTH_TOKEN_PATH": str(token)}
    done = command(tmp_path, *UP, "--ray", documented.address, env=env)
    assert done.returncode == 2 and f"other users can read the token of this Ray cluster in {token}" in done.stderr
    assert f"chmod 600 {token}" in done.stderr


@pytest.mark.nightly
def test_up_says_which_cluster_it_found_warns_of_it_and_waits_for_a_node(tmp_path: Path, unauthenticated: RayCluster) -> None:
    env = {**os.environ, **OPEN, "RAY_ADDRESS": unauthenticated.address}
    run = [sys.executable, "-m", "rota", *UP, "--ray", "auto", "--insecure-ray", "--node-dir", str(tmp_path / "nodes")]
    out = tmp_path / "up.out"
    with out.open("w") as said:
        up = subprocess.Popen(run, env=env, cwd=tmp_path, stdout=said, stderr=said)
    try:
        until(lambda: "waiting: no node of the Ray cluster" in out.read_text(), "it waits")
        lines = out.read_text().splitlines()
        port = unauthenticated.address.partition(":")[2]
        assert lines[0].startswith("--ray auto: the Ray cluster at ") and lines[0].endswith(f":{port}")
        assert lines[1].startswith("WARNING: the Ray cluster at ") and lines[1].endswith(f":{port} {NO_TOKEN}")
        assert up.poll() is None
        unauthenticated.add("n1", 1, "V100")
        until(lambda: "ready http" in out.read_text(), "it is ready when a node is there")
    finally:
        up.terminate()
        assert up.wait(120.0) == 0, out.read_text()
        unauthenticated.kill("n1")


@pytest.mark.nightly
def test_auto_asks_which_of_several_clusters_is_meant(
    tmp_path: Path, documented: RayCluster, unauthenticated: RayCluster
) -> None:
    done = command(tmp_path, *UP, "--ray", "auto", env=SETTINGS | {"RAY_ADDRESS": ""})
    assert done.returncode == 2 and "Ray clusters run on this machine: " in done.stderr
    for cluster in (documented, unauthenticated):
        assert cluster.address.partition(":")[2] in done.stderr


@pytest.mark.nightly
def test_the_doctor_tells_which_cluster_is_open(tmp_path: Path, documented: RayCluster, unauthenticated: RayCluster) -> None:
    done = command(tmp_path, "doctor", "--home", "home", env=SETTINGS)
    lines = [line for line in done.stdout.splitlines() if "  Ray  " in line]
    (wrong,) = [line for line in lines if f":{unauthenticated.address.partition(':')[2]} " in line]
    (right,) = [line for line in lines if f":{documented.address.partition(':')[2]} " in line]
    assert wrong.startswith("fail") and NO_TOKEN in wrong and done.returncode == 1
    assert right.startswith("ok") and "requires a token, and yours is right" in right


# Another Unix user.


def _as_nobody() -> list[str]:
    """A command line before that of a Python which another user can run, and which has our Ray."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become another user, by setpriv")
    site = str(Path(ray.__file__).parents[1])
    minor = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/{minor}", f"/usr/local/bin/{minor}"):
        become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", "-i"]
        words = [*become, f"PYTHONPATH={site}", "PATH=/usr/bin:/bin", "RAY_AUTH_MODE=disabled", python]
        if subprocess.run([*words, "-c", "import ray"], capture_output=True, cwd="/").returncode == 0:
            return words
    pytest.skip("no Python that another user can run has Ray")


@pytest.fixture
def attack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    words = _as_nobody()
    folder = Path(
        subprocess.run(["mktemp", "-d", "/tmp/nobody-XXXXXX"], capture_output=True, text=True, check=True).stdout.strip()
    )
    os.chown(folder, NOBODY, NOBODY)
    program = folder / "attack.py"
    program.write_text(ATTACK)
    program.chmod(0o644)
    try:
        yield [*words, str(program)]
    finally:
        _end_of_nobody(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _end_of_nobody(folder: Path) -> None:
    """What the attack left running."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            mine = entry.name.isdecimal() and entry.stat().st_uid == NOBODY
            if mine and str(folder).encode() in (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes():
                os.kill(int(entry.name), 9)


@pytest.mark.nightly
def test_another_user_becomes_root_by_an_open_cluster_and_not_by_the_documented_one(
    attack: list[str], documented: RayCluster, unauthenticated: RayCluster
) -> None:
    folder = Path(attack[-1]).parent

    def run(cluster: RayCluster) -> "subprocess.CompletedProcess[str]":
        words = [*attack, cluster.address, str(folder / "t")]
        return subprocess.run(words, capture_output=True, text=True, cwd=folder, timeout=300)

    done = run(unauthenticated)
    assert done.returncode == 0 and "uid there 0" in done.stdout, done.stderr
    done = run(documented)
    assert done.returncode != 0 and "uid there" not in done.stdout
    assert "Authentication token is missing or incorrect" in done.stderr + done.stdout
