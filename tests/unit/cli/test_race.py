"""The race: a frame shows what the records contain."""

import io

from rich.console import Console

import rota
from rota.cli.race import frame, play


def test_frames_count_what_has_finished() -> None:
    whole = rota.compare(["fifo", "srsf"], trace="synthetic:jobs=30,gpus=8,largest=4", cluster="8xV100")
    runs = [(line.label, line.results[0].record) for line in whole.lines]
    end_s = float(runs[0][1].finished_s.max())
    for now_s in (0.0, end_s / 2, end_s):
        console = Console(width=80, file=io.StringIO())
        console.print(frame(runs, 0.0, now_s))
        text = console.file.getvalue()  # type: ignore[attr-defined]
        for label, record in runs:
            line = next(row for row in text.splitlines() if row.startswith(label))
            assert f"{int((record.finished_s <= now_s).sum())}/30" in line
        assert "…" not in text, "it fits a plain terminal"


def test_it_plays_to_the_end() -> None:
    console = Console(width=80, file=io.StringIO(), force_terminal=True)
    play(rota.compare(["fifo"], trace="synthetic:jobs=5,gpus=8", cluster="8xV100"), seconds=0.05, console=console)
    assert "5/5" in console.file.getvalue()  # type: ignore[attr-defined]
