"""`rota up` refuses mistakes before anything happens, with the words of `rota sim`."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Rota

HEADER = "profile,accelerator,gpus,steps_per_second\n"


@pytest.mark.parametrize("more", [(), ("--detach",), ("--systemd", "rota.service")], ids=["here", "detached", "systemd"])
@pytest.mark.parametrize(
    "wrong",
    [
        ("--profile", "rates.csv"),
        ("--profile", "nowhere.csv"),
        ("--tensors", "rates.csv"),
        ("--variability", "rates.csv"),
        ("--spread-penalty", "a=b"),
        ("--checkpoint-seconds", "-1"),
        ("--round-seconds", "0"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_told_as_sim_tells_it_and_nothing_is_touched(
    rota: Rota, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: tuple[str, ...], more: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rates.csv").write_text(HEADER + "net,V100,1,fast\n")
    code, out, err = rota("up", "--home", "home", "--pretend", "1xV100", *wrong, *more)
    assert (code, out, err) == rota("sim", "--trace", "demo", "--cluster", "1xV100", "--drop-oversized", *wrong)
    assert code == 2 and out == "" and [each.name for each in tmp_path.iterdir()] == ["rates.csv"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (("--journal", "postgresql://rota:hunter2@db/rota"), "list of processes"),
        (("--journal", "mysql://db/rota"), "not the address of a PostgreSQL database"),
        (("--standby",), "needs a journal that other machines can write too"),
    ],
    ids=["password", "address", "standby"],
)
def test_a_journal_that_cannot_be(rota: Rota, tmp_path: Path, wrong: tuple[str, ...], told: str) -> None:
    code, out, err = rota("up", "--home", str(tmp_path / "home"), "--pretend", "1xV100", *wrong)
    assert code == 2 and out == "" and told in err and "Try: " in err and "hunter2" not in err
    assert not (tmp_path / "home").exists()


def test_a_unit_for_a_ray_cluster_is_written_before_the_cluster_runs(rota: Rota, tmp_path: Path) -> None:
    unit, home = tmp_path / "rota.service", tmp_path / "home"
    code, out, err = rota("up", "--home", str(home), "--ray", "127.0.0.1:1", "--policy", "fifo", "--systemd", str(unit))
    assert (code, err) == (0, "") and "Wrote" in out
    assert "To keep it running after you log out, once: loginctl enable-linger" in out
    assert "--ray 127.0.0.1:1 --policy fifo" in unit.read_text() and not home.exists()


@pytest.mark.parametrize(
    "wrong", [("--ray", "head"), ("--ray", "h:1", "--pretend", "1xV100"), ("--ray", "h:1", "--policy", "fifoo")], ids=" ".join
)
def test_a_mistake_in_such_a_unit_is_told(rota: Rota, tmp_path: Path, wrong: tuple[str, ...]) -> None:
    code, _, err = rota("up", "--home", str(tmp_path / "home"), *wrong, "--systemd", str(tmp_path / "rota.service"))
    assert code == 2 and "Try: " in err and not (tmp_path / "rota.service").exists()


@pytest.mark.parametrize("more", [(), ("--detach",), ("--systemd", "rota.service")], ids=["here", "detached", "systemd"])
@pytest.mark.parametrize("below", ["", "/deeper"])
def test_a_home_that_is_a_file(rota: Rota, tmp_path: Path, more: tuple[str, ...], below: str) -> None:
    home = tmp_path / "passwd"
    home.write_text("root:x:0:0\n")
    code, out, err = rota("up", "--home", f"{home}{below}", "--pretend", "1xV100", *more)
    assert (code, out) == (2, "") and f"{home} is a file, not a folder." in err and "Try: --home " in err and "journal" not in err


@pytest.mark.parametrize("seconds", ["-1", "0"])
def test_a_lease_that_cannot_be(rota: Rota, tmp_path: Path, seconds: str) -> None:
    code, _, err = rota("up", "--home", str(tmp_path / "home"), "--pretend", "1xV100", "--lease-seconds", seconds)
    assert code == 2 and err == f"--lease-seconds: {float(seconds)} — must be more than 0.\nTry: --lease-seconds 300\n"


def test_a_shape_is_for_starts_that_return(rota: Rota, tmp_path: Path) -> None:
    code, _, err = rota("up", "--home", str(tmp_path / "home"), "--pretend", "1xV100", "-o", "json")
    assert code == 2 and "is for --detach and --systemd." in err and not (tmp_path / "home").exists()
    unit = tmp_path / "rota.service"
    code, out, _ = rota("up", "--home", str(tmp_path / "home"), "--pretend", "1xV100", "--systemd", str(unit), "-o", "json")
    assert code == 0 and json.loads(out) == {"unit": str(unit)} and " -o" not in unit.read_text()


def test_a_unit_of_the_system(rota: Rota, tmp_path: Path) -> None:
    unit = tmp_path / "rota.service"
    up = ("up", "--home", str(tmp_path / "home"), "--pretend", "1xV100")
    code, out, err = rota(*up, "--systemd", str(unit), "--system")
    assert (code, err) == (0, "") and "systemctl daemon-reload && systemctl enable --now rota.service" in out
    text = unit.read_text()
    assert "WantedBy=multi-user.target" in text and "--system" not in text and " up --pretend 1xV100 --home " in text
    code, out, err = rota(*up, "--system")
    assert code == 2 and "--system — goes with --systemd." in err and not (tmp_path / "home").exists()
