"""The container file fits the package. It is built only where a container engine runs."""

import re
import shlex
import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from docs.reference import flags_of_commands
from rota.cli.main import COMMANDS
from rota.model.cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Containerfile").read_text(encoding="utf-8")
LINES = [line.split(maxsplit=1) for line in re.sub(r"\\\n\s*", "", TEXT).splitlines() if line and not line.startswith("#")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def values(instruction: str) -> list[str]:
    return [rest for word, rest in LINES if word == instruction]


def vector(instruction: str) -> list[str]:
    (found,) = values(instruction)
    return re.findall(r'"([^"]*)"', found.split("CMD ")[-1])


def test_it_has_the_newest_python_that_the_package_promises() -> None:
    promised = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    images = {re.match(r"docker\.io/library/python:([\d.]+)-slim", each)[1] for each in values("FROM")}  # type: ignore[index]
    assert images == {promised[-1]}


def test_it_runs_a_command_of_the_package_as_a_user() -> None:
    assert vector("ENTRYPOINT") == ["rota"] and "rota" in PROJECT["scripts"]
    command, flag, cluster = vector("CMD")
    assert command in COMMANDS and flag in flags_of_commands()[f"rota {command}"]
    assert len(Cluster.parse(cluster).nodes) == 1
    program, check = vector("HEALTHCHECK")
    assert program == "rota" and check in COMMANDS
    assert values("USER") == ["rota"] and "useradd --create-home --uid 1000 rota" in TEXT
    (home,) = values("VOLUME")
    assert f"ROTA_HOME={home}" in TEXT and f"--mode 700 {home}" in TEXT


def test_what_it_copies_is_there_and_not_ignored() -> None:
    copied = [word for each in values("COPY") if "--from" not in each for word in each.split()[:-1]]
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = [line[1:] for line in ignored if line.startswith("!")]
    assert "*" in ignored and sorted(kept) == sorted(copied) and len(copied) > 4
    assert all((ROOT / name).exists() for name in copied)
    needed = {"README.md", *PROJECT["license-files"], "pyproject.toml", "rota", "requirements.lock"}
    assert needed == set(copied)


def test_the_build_backend_is_in_the_lock_since_nothing_else_is_downloaded_for_the_build() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "--no-build-isolation" in TEXT and "--require-hashes -r requirements.lock" in TEXT
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    assert all(re.search(rf"^{re.split('[^a-z-]', each)[0]}==", lock, re.MULTILINE) for each in backend)


def test_the_extras_that_it_names_exist() -> None:
    (named,) = re.findall(r"EXTRAS=([a-z,]+)$", TEXT, re.MULTILINE)
    assert set(named.split(",")) <= set(PROJECT["optional-dependencies"]) and values("ARG") == ['EXTRAS=""']


def test_the_commands_that_it_shows_exist() -> None:
    shown = re.findall(r"^#.*(?:-d rota +# |exec rota )(rota .*?)(?: +#.*)?$", TEXT, re.MULTILINE)
    words = [shlex.split(each) for each in shown]
    assert [each[:2] for each in words] == [["rota", "up"], ["rota", "submit"]]
    assert words[0][1:] == vector("CMD")


def test_it_is_packed_with_the_sources() -> None:
    include = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert all(any(fnmatch(f"/{name}", each) for each in include) for name in ("Containerfile", ".dockerignore"))


@pytest.mark.nightly
def test_an_image_can_be_built_and_runs(tmp_path: Path) -> None:
    engine = next((name for name in ("podman", "docker") if shutil.which(name)), None)
    if engine is None or subprocess.run([engine, "info"], capture_output=True).returncode != 0:
        pytest.skip("no container engine runs here")
    built = subprocess.run([engine, "build", "-q", "-f", "Containerfile", "."], cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    image = built.stdout.strip()
    try:
        said = subprocess.run([engine, "run", "--rm", "--network=none", image, "--version"], capture_output=True, text=True)
        assert said.stdout.startswith("rota "), said.stderr
    finally:
        subprocess.run([engine, "rmi", image], capture_output=True)
