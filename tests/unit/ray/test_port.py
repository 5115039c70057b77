"""The absence of a Ray cluster is reported at once."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rota.errors import OptionError
from rota.ray.port import check_port, read_address


@pytest.mark.parametrize(
    ("address", "found"),
    [("10.0.0.1:6379", ("10.0.0.1", 6379)), ("head:1", ("head", 1)), ("[::1]:80", ("::1", 80)), ("ray://h:10001", ("h", 10001))],
)
def test_an_address_is_read(address: str, found: tuple[str, int]) -> None:
    assert read_address(address) == found


@pytest.mark.parametrize("address", ["", "head", ":6379", "head:", "head:many", "head:0", "head:65536", "head:²"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(OptionError, match=r"is not HOST:PORT"):
        check_port(address)


def test_a_port_that_listens_and_then_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as box:
        address = f"127.0.0.1:{box.getsockname()[1]}"
        check_port(address)
    with pytest.raises(OptionError, match="nothing listens there") as problem:
        check_port(address)
    assert problem.value.hint


def test_a_host_that_does_not_exist() -> None:
    with pytest.raises(OptionError, match="nothing listens there"):
        check_port("no-such-host.invalid:6379")


@pytest.mark.slow
@pytest.mark.parametrize("words", [["sweep", "fifo", "--out", "x"], ["up", "--home", "home"]])
def test_commands_say_so_and_do_not_wait(tmp_path: Path, words: list[str]) -> None:
    with socket.socket() as box:
        box.bind(("127.0.0.1", 0))  # taken, and nothing listens
        address = f"127.0.0.1:{box.getsockname()[1]}"
        command = [sys.executable, "-m", "rota", *words, "--ray", address]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=100)
    assert done.returncode == 2, done.stderr
    assert f"--ray: '{address}' — nothing listens there" in done.stderr and "Try: ray start" in done.stderr
