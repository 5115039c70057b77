"""The wheel and the sources, built from the tree; the wheel installed into a clean environment, where the demo runs."""

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 180


def start(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command without the variables that could let the source tree leak into it."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )


def run(*command: str | Path, cwd: Path) -> str:
    done = start(*command, cwd=cwd)
    shown = " ".join(str(part) for part in command)
    assert done.returncode == 0, f"{shown} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()


def source_version() -> str:
    text = (ROOT / "rota" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    assert found, "rota/__init__.py has no line __version__ = ..."
    return found[1]


def constraints() -> str:
    """The pins of requirements.lock without the hashes, which a constraints file may not carry for a local wheel."""
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [line.removesuffix("\\").rstrip() for line in lines if line and line[0] not in "# "]
    assert any(pin.startswith("numpy==") for pin in pins)
    return "\n".join(pins) + "\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def clean_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the wheel, its dependencies and nothing else."""
    home = tmp_path_factory.mktemp("clean")
    run(sys.executable, "-m", "venv", "--without-pip", home / "venv", cwd=home)
    python = home / "venv" / "bin" / "python"
    pins = home / "constraints.txt"
    pins.write_text(constraints(), encoding="utf-8")
    # As in `make setup`: uv where it is there and reaches the packages, else pip.
    uv: list[str | Path] = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python]
    if not importlib.util.find_spec("uv") or start(*uv, "-c", pins, wheel, cwd=home).returncode != 0:
        run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "-c", pins, wheel, cwd=home)
    return python


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    assert wheel.name == f"rota_scheduler-{source_version()}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "rota/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"rota", f"rota_scheduler-{source_version()}.dist-info"}
    assert not [name for name in names if "tests" in name.split("/") or "__pycache__" in name]
    sources = {file.relative_to(ROOT).as_posix() for file in (ROOT / "rota").rglob("*.py")}
    assert sources <= set(names)
    assert [name for name in names if name.endswith("/licenses/LICENSE")]
    assert [name for name in names if name.endswith("/licenses/NOTICE")]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sources")
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    (built,) = out.glob("*.tar.gz")
    return built


def test_the_sources_build_the_same_wheel(sources: Path, wheel: Path, tmp_path: Path) -> None:
    folder = f"rota_scheduler-{source_version()}"
    assert sources.name == f"{folder}.tar.gz"
    with tarfile.open(sources) as archive:
        archive.extractall(tmp_path, filter="data")
    inside = {path.relative_to(tmp_path / folder).as_posix() for path in (tmp_path / folder).rglob("*")}
    assert {"Containerfile", "Makefile", "tests/conftest.py", "docs/index.md", "requirements.lock"} <= inside
    assert not [name for name in inside if name.startswith((".venv", "docs/_build", ".git/"))]
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, tmp_path / folder, cwd=tmp_path)
    (again,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as other:
        assert {each.filename: each.CRC for each in one.infolist()} == {each.filename: each.CRC for each in other.infolist()}


def test_the_demo_runs_in_an_empty_folder(clean_python: Path, tmp_path: Path) -> None:
    told = run(clean_python.parent / "rota", "demo", cwd=tmp_path)
    assert told.startswith("POLICY") and "tiresias+pal" in told
    assert [each.name for each in tmp_path.iterdir()] == ["rota-demo.html"]


def test_the_first_command_of_the_readme_names_the_package() -> None:
    first = re.findall(r"```sh\n(.*?)\n", (ROOT / "README.md").read_text(encoding="utf-8"))[0]
    name = re.findall(r'^name = "(.*)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)[0]
    assert first == f"pip install {name}"


def test_a_clean_install_imports_and_runs(clean_python: Path, tmp_path: Path) -> None:
    code = "import rota; print(rota.__version__); print(rota.__file__)"
    version, file = run(clean_python, "-c", code, cwd=tmp_path).splitlines()
    assert version == source_version()
    assert Path(file).is_relative_to(clean_python.parents[1])
    told = run(clean_python.parent / "rota", "--version", cwd=tmp_path)
    assert source_version() in told.split()
