"""Long names and sentences on a terminal of 80 columns, and in a pipe."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from rota.cli import jobs as jobs_command
from rota.cli.screen import fitted, shortened, wrapped
from rota.wire.client import Client
from rota.wire.rows import ReasonRow
from tests.unit.cli.conftest import Rota
from tests.unit.server.standin import Served

LONG = "resnet-" + "x" * 70


@pytest.fixture
def terminal(rota: Rota, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Runs a command on a terminal of this size and returns its lines."""

    def run(*arguments: str, columns: int = 80, lines: int = 24) -> list[str]:
        with monkeypatch.context() as patch:
            patch.setenv("COLUMNS", str(columns))
            patch.setenv("LINES", str(lines))
            patch.setenv("NO_COLOR", "1")
            patch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
            code, out, err = rota(*arguments)
        assert (code, err) == (0, "")
        return out.splitlines()

    return run


def submit(served: Served, *names: str) -> None:
    Client(served.url, served.token).submit_many({"run": "x", "name": name} for name in names)


def test_a_long_name_leaves_room_for_the_other_columns(served: Served, rota: Rota, terminal: Callable[..., list[str]]) -> None:
    submit(served, LONG, "bert")
    served.daemon.change(replace(served.daemon.run(1), steps_done=450.0, steps_total=1000, eta_seconds=7800.0))
    heads, first, second, _ = terminal("jobs")
    assert max(map(len, (heads, first, second))) <= 80
    assert heads.index("PHASE") == first.index("running") == second.index("queued")
    assert "resnet-xxxx…" in first and " bert " in second
    assert "  45%" in first and "▇" not in first and "▇" in terminal("jobs", columns=160)[1]
    assert len(rota("jobs")[1].splitlines()[1]) > 80, "a pipe gets more"
    assert json.loads(rota("jobs", "-o", "json")[1])[0]["name"] == LONG and LONG in rota("jobs", "-o", "csv")[1]
    assert LONG in "".join(terminal("jobs", "-o", "wide"))
    assert "resnet-" + "x" * 24 + "…" in terminal("jobs", columns=160)[1]


def test_the_names_of_jobs_leave_room_beside_their_nodes(served: Served, terminal: Callable[..., list[str]]) -> None:
    submit(served, LONG)
    served.daemon.run(1)
    assert max(len(line) for line in terminal("nodes")) <= 80
    assert max(len(line) for line in terminal("nodes", columns=60)[:-1]) <= 60


def test_why_is_broken_between_words(served: Served, rota: Rota, terminal: Callable[..., list[str]]) -> None:
    submit(served, LONG, LONG + "y", LONG + "z")
    why = served.daemon.why
    sentence = "It needs 4 GPUs of V100 or A100; 2 are free. Jobs 1, 2 have just started; the first may be suspended in 30 s."
    served.daemon.why = lambda job: replace(why(job), reasons=[ReasonRow(code="NO_FREE_GPUS", sentence=sentence, facts={})])
    try:
        lines, whole = terminal("why", "3"), rota("why", "3")[1]
    finally:
        del served.daemon.why
    assert max(map(len, lines)) <= 80
    assert " ".join("\n".join(lines).split()).replace(LONG[:31] + "…", LONG).count(sentence + " [NO_FREE_GPUS]") == 1
    assert f" 1  {sentence}  [NO_FREE_GPUS]\n" in whole, "a pipe gets whole lines"
    ahead = next(i for i, line in enumerate(lines) if line.startswith(" Ahead of it   "))
    assert lines[ahead + 1].startswith(" " * 15) and LONG[:31] + "…" in lines[ahead]


def test_watching_keeps_the_last_line_on_a_low_terminal(
    served: Served, terminal: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(served, *(f"j{i}" for i in range(40)))
    monkeypatch.setattr(jobs_command, "REDRAW_SECONDS", 0.0)
    asked = iter([0, 1])

    def changes(client: Client, seen: int = 0, timeout: float = 20.0) -> int:
        if next(asked):
            raise KeyboardInterrupt
        return 0

    monkeypatch.setattr(Client, "changes", changes)
    lines = terminal("jobs", "--watch", lines=12)
    assert len(lines) <= 13 and any(line.startswith("showing 9 of 40 jobs") for line in lines)


def test_columns_become_narrower_in_order_and_not_further_than_they_may() -> None:
    cells = [("ID", "NAME", "NOTE"), ("1", "n" * 30, "t" * 30)]
    assert fitted(cells, None, {1: 10, 2: 5}) == cells and fitted(cells, 66, {1: 10, 2: 5}) == cells
    assert fitted(cells, 56, {1: 10, 2: 5})[1] == ("1", "n" * 19 + "…", "t" * 30)
    assert fitted(cells, 40, {1: 10, 2: 5})[1] == ("1", "n" * 9 + "…", "t" * 23 + "…")
    assert fitted(cells, 10, {1: 10, 2: 5})[1] == ("1", "n" * 9 + "…", "t" * 4 + "…")


def test_short_text_is_left_alone() -> None:
    assert shortened("abc", 3) == "abc" and shortened("abcd", 3) == "ab…"
    assert wrapped("  x  ", "one two", None) == ["  x  one two"]
    assert wrapped("  x  ", "one two three four five six", 25) == ["  x  one two three four", "     five six"]
