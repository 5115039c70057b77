"""Facts read from the files of a Python, none of which is run."""

import os
from pathlib import Path

import pytest

from rota.park.facts import allocator, loading, package_folders, parking_facts, python_of, torch_cuda
from rota.park.park_method import EXIT, PRELOAD, SLEEP, choose_park_method

VERSION = """from typing import Optional
__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']
__version__ = '2.11.0+cu130'
debug = False
cuda: Optional[str] = {cuda}
git_version = 'cuda = 99'
hip: Optional[str] = None
"""


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A virtual environment as far as files go."""
    for name in ("python", "python3.11", "sleeper"):
        path = tmp_path / "env" / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x7fELF")
        path.chmod(0o755)
    (tmp_path / "env" / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
    launcher = tmp_path / "env" / "bin" / "torchrun"
    launcher.write_text(f"#!{tmp_path}/env/bin/python3.11\nimport torch\n")
    launcher.chmod(0o755)
    packages = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    (packages / "torch").mkdir(parents=True)
    (packages / "torch" / "version.py").write_text(VERSION.format(cuda="'13.0'"))
    return tmp_path / "env"


@pytest.mark.parametrize(
    ("argv", "python", "obstacle"),
    [
        (["python", "train.py"], "python", ""),
        (["python3.11", "-u", "-m", "train", "-S"], "python3.11", ""),
        (["python", "-S", "train.py"], "python", "with -S"),
        (["python", "-uI", "train.py"], "python", "with -uI"),
        (["bash", "-c", "cd /data && FOO=1 python train.py | tee log"], "python", ""),
        (["bash", "-c", "python -E train.py"], "python", "with -E"),
        (["bash", "-c", "echo 'unclosed"], "python", ""),
        (["bash", "train.sh"], "python", ""),
        (["torchrun", "train.py"], "python3.11", ""),
        (["sleeper", "100"], "", "its command sleeper is not Python"),
        (["missing"], "", "its command missing is not Python"),
    ],
)
def test_the_python_that_a_command_starts(environment: Path, argv: list[str], python: str, obstacle: str) -> None:
    found, why = python_of(argv, {"PATH": str(environment / "bin")}, "/")
    assert found == (str(environment / "bin" / python) if python else "")
    assert (obstacle in why) if obstacle else not why


def test_the_cuda_of_a_pytorch_is_read_and_not_asked(environment: Path) -> None:
    folders = [str(folder) for folder in package_folders(str(environment / "bin/python"), {})]
    assert folders == [str(environment / "lib/python3.11/site-packages")], "a virtual environment sees no other"
    assert torch_cuda(folders) == (True, 13)
    (environment / "lib/python3.11/site-packages/torch/version.py").write_text(VERSION.format(cuda="None"))
    assert torch_cuda(folders) == (True, None)
    assert torch_cuda(["/nowhere"]) == (False, None)


def test_the_allocator_is_the_one_for_this_cuda(environment: Path) -> None:
    packages = environment / "lib/python3.11/site-packages"
    names = [f"torch_memory_saver_hook_mode_preload{suffix}.abi3.so" for suffix in ("", "_cu12", "_cu13")]
    for name in names[1:]:
        (packages / name).touch()
    assert allocator([str(packages)], 13) == str(packages / names[2])
    assert allocator([str(packages)], 12) == str(packages / names[1])
    assert allocator([str(packages)], 14) == ""
    (packages / names[1]).unlink()
    (packages / "torch_memory_saver").mkdir()
    (packages / "torch_memory_saver" / names[0]).touch()
    assert allocator([str(packages)], 12) == str(packages / "torch_memory_saver" / names[0]), "of an early version"


def test_a_library_that_no_process_could_start_with_is_refused(environment: Path, tmp_path: Path) -> None:
    env = {"PATH": str(environment / "bin")}
    how = {"wanted": True, "gpus": 1.0, "real_gpus": True}
    library = environment / "lib/python3.11/site-packages/torch_memory_saver_hook_mode_preload_cu13.abi3.so"
    library.write_bytes(b"not a library")
    way, why = choose_park_method(parking_facts(["python", "train.py"], env, "/", **how))  # type: ignore[arg-type]
    assert way == EXIT and "cannot be loaded" in why
    real = next((path for path in map(Path, ("/lib/x86_64-linux-gnu/libm.so.6", "/lib64/libm.so.6")) if path.exists()), None)
    if real is not None:
        assert loading(str(real), ()) == ((), "")
        other = tmp_path / "other"
        library.unlink()
        library.symlink_to(real)
        facts = parking_facts(["python", "train.py"], env, str(other), **how)  # type: ignore[arg-type]
        assert choose_park_method(facts)[0] == PRELOAD and facts.library == os.path.realpath(real)


def test_pretend_gpus_need_no_pytorch() -> None:
    facts = parking_facts(["python", "train.py"], {"PATH": os.environ["PATH"]}, "/", wanted=True, gpus=1, real_gpus=False)
    assert choose_park_method(facts)[0] == SLEEP
