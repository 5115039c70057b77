"""`rota up` refuses mistakes before anything happens, with the words of `rota sim`."""

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
        (("--standby",), "needs a journal that another machine can write too"),
    ],
    ids=["password", "address", "standby"],
)
def test_a_journal_that_cannot_be(rota: Rota, tmp_path: Path, wrong: tuple[str, ...], told: str) -> None:
    code, out, err = rota("up", "--home", str(tmp_path / "home"), "--pretend", "1xV100", *wrong)
    assert code == 2 and out == "" and told in err and "Try: " in err and "hunter2" not in err
    assert not (tmp_path / "home").exists()
