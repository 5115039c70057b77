"""The examples in the documentation do what they say."""

import re
import sys
from pathlib import Path

import pytest

import rota
from rota.cli.main import main
from rota.model.view import Jobs
from tests.browser.pictures import description
from tests.docs.pages import CELL, printed_by_cells, words

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def run(command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", words(command))
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def test_the_policy_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = blocks("docs/policies.md", "python")
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(code)
    commands = [line for block in blocks("docs/policies.md", "sh") for line in block.splitlines() if line.startswith("rota ")]
    assert len(commands) == 2
    for command in commands:
        assert run(command.replace("philly-like", "demo"), monkeypatch) == 0
    assert "./mine.py:Mine" in capsys.readouterr().out


def test_your_own_policy_in_ten_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    patient, robin = blocks("docs/write-a-policy.md", "python")
    monkeypatch.chdir(tmp_path)
    Path("patient.py").write_text(patient)
    Path("robin.py").write_text(robin)
    check, compare = [block.strip() for block in blocks("docs/write-a-policy.md", "sh")]
    assert run(check, monkeypatch) == 0
    printed = capsys.readouterr().out
    (shown,) = blocks("docs/write-a-policy.md", "text")
    assert all(line in printed for line in shown.splitlines()), printed
    assert run(compare, monkeypatch) == 0
    assert "./patient.py:Patient:patience=0.5" in capsys.readouterr().out.replace("\n", "").replace(" ", "")
    assert "<html" in Path("patient.html").read_text()
    assert run("rota policy check ./robin.py:RoundRobin --seeds 2", monkeypatch) == 0
    assert len(patient.splitlines()) < 60 and len(robin.splitlines()) < 60


def test_your_own_tactic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    backfill, empty_nodes = blocks("docs/write-a-tactic.md", "python")
    monkeypatch.chdir(tmp_path)
    Path("backfill.py").write_text(backfill)
    Path("empty_nodes.py").write_text(empty_nodes)
    (commands,) = blocks("docs/write-a-tactic.md", "sh")
    without, improved = (
        rota.simulate("demo", policy="fifo", tactics=text).summary.mean_jct_seconds for text in ("", "./backfill.py")
    )
    page = " ".join((ROOT / "docs/write-a-tactic.md").read_text().split())
    assert f"from {without / 60:.0f} to {improved / 60:.0f} minutes" in page
    for command in commands.strip().splitlines():
        assert run(command, monkeypatch) == 0
    moved = rota.simulate("demo", policy="fifo", cluster="8x(4xV100)", tactics="./empty_nodes.py:EmptyNodes")
    assert moved.record.suspensions.sum() > 0, "no policy suspends a job here"
    assert len(backfill.splitlines()) < 60 and len(empty_nodes.splitlines()) < 60


def test_the_steps_the_page_of_tactics_names_exist() -> None:
    page = (ROOT / "docs/write-a-tactic.md").read_text()
    for heading, kind in (("| in a `Draft`", rota.Draft), ("| in a `Mover`", rota.Mover), ("| step |", rota.Tactic)):
        table = page.split(heading)[1].split("\n\n")[0]
        names = [name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)\(", line.split("|")[1])]
        assert names and all(hasattr(kind, name) for name in names), names


def test_the_columns_the_tutorial_names_exist() -> None:
    table = (ROOT / "docs/write-a-policy.md").read_text().split("| column of")[1].split("\n\n")[0]
    names = [name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[1])]
    assert len(names) > 8
    for name in names:
        assert hasattr(Jobs, name), name


def test_the_tutorial_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block of Python runs in one namespace, as in a notebook; the text behind it is what it prints."""
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs/tutorial.md"
    shown = [cell[4] or "" for cell in CELL.finditer(page.read_text())]
    assert len(shown) > 5
    for (code, printed), expected in zip(printed_by_cells(page), shown, strict=True):
        assert printed.split() == expected.split(), f"{code}\nNext: python -m tests.docs.pages"


def test_the_readmes_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("jobs.csv").write_text("submit_time,gpus,duration\n0,1,60\n5,4,120\n")
    (policy,) = blocks("docs/policies.md", "python")
    Path("mine.py").write_text(policy)
    lines = [line for line in "\n".join(blocks("README.md", "sh")).splitlines() if line.startswith("rota ")]
    commands = [line for line in lines if not line.startswith("rota demo")]  # the demo has a test of its own
    assert len(commands) == 7 == len(lines) - 1
    for command in commands:
        assert run(command.replace("--seeds 5", "--seeds 2"), monkeypatch) == 0, command
    assert Path("result.html").exists() and Path("loads/results.csv").exists()
    assert "offered load" in capsys.readouterr().out


def test_the_readmes_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("README.md", "python")
    exec(compile(code, "README.md", "exec"), {})
    assert "JCT vs fifo" in capsys.readouterr().out
    assert Path("jct.svg").read_text().startswith("<svg")


def test_the_readmes_table_is_what_the_demo_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = next(block for block in blocks("README.md", "text") if block.startswith("POLICY"))
    assert run("rota demo", monkeypatch) == 0
    printed = capsys.readouterr().out

    table, legend, page, live = printed.rstrip("\n").split("\n\n")
    assert table.split() == shown.split()
    rows = {row.split()[0] for row in table.splitlines()[1:8]}
    assert rows == {"fifo", "gandiva", "tiresias", "max-min-fairness", "ones", "tiresias+pal", "srsf"}, "a policy of each paper"
    assert all(paper in legend for paper in ("Gandiva", "Tiresias", "Gavel", "ONES", "PAL"))
    assert "srsf" in legend and "which no real scheduler has" in legend
    assert "rota up --pretend 4xV100" in live and "rota submit" in live
    page = page.splitlines()[-1]
    assert page == str(tmp_path / "rota-demo.html") and Path(page).read_text().startswith("<!")
    picture = description(ROOT / "docs/images/page-top.png")
    assert picture.split() == shown.split(), "the picture is of another run: make screenshots"


def test_moves_gain_what_the_page_shows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    commands = [block for block in blocks("docs/tactics.md", "sh") if block.startswith("rota compare")]
    shown = [block for block in blocks("docs/tactics.md", "text") if block.startswith("POLICY")]
    assert len(commands) == len(shown) == 2
    for command, lines in zip(commands, shown, strict=True):
        assert run(command.replace("\\\n", " ").strip(), monkeypatch) == 0
        printed = capsys.readouterr().out
        assert all(line in printed for line in lines.splitlines()), printed
