"""The race: play recorded runs side by side in the terminal, all at the same speed."""

import time
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rota.report.comparison import Comparison
    from rota.sim.record import Record

SECONDS = 7.0
FRAMES_PER_SECOND = 20
BAR = 26


def play(whole: "Comparison", seconds: float = SECONDS, console: Any = None) -> None:
    """Play the runs from the first submission to the last end."""
    from rich.console import Console
    from rich.live import Live

    runs = [(line.label, line.results[0].record) for line in whole.lines]
    start_s = min(float(record.submitted_s.min()) for _, record in runs)
    end_s = max(float(np.nanmax(record.finished_s)) for _, record in runs)
    frames = max(int(seconds * FRAMES_PER_SECOND), 1)
    with Live(console=console or Console(), refresh_per_second=FRAMES_PER_SECOND, transient=True) as live:
        for i in range(frames + 1):
            live.update(frame(runs, start_s, start_s + (end_s - start_s) * i / frames))
            time.sleep(seconds / frames)


def frame(runs: list[tuple[str, Any]], start_s: float, now_s: float) -> Any:
    """Return one frame: the jobs that each policy has finished, the waiting jobs, and the mean JCT until now."""
    from rich.table import Table
    from rich.text import Text

    from rota.report.result import duration, durations

    table = Table(
        box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0), title=f"simulated time {duration(now_s - start_s)}"
    )
    for head in ("POLICY", "FINISHED", "", "WAITING", "MEAN JCT"):
        table.add_column(head, justify="left" if head in ("POLICY", "FINISHED") else "right", no_wrap=True)
    rows = []
    for label, record in runs:
        done = record.finished_s <= now_s
        arrived = record.submitted_s <= now_s
        holding = _holding(record, now_s)
        mean = float((record.finished_s - record.submitted_s)[done].mean()) if done.any() else None
        rows.append((label, int(done.sum()), len(done), int((arrived & ~done).sum()) - holding, mean))
    leader = max(count for _, count, *_ in rows)
    means = durations([mean for *_, mean in rows])
    for (label, count, total, waiting, _), shown in zip(rows, means, strict=True):
        full = round(BAR * count / total)
        bar = "█" * full + "░" * (BAR - full)
        table.add_row(Text(label), bar, f"{count}/{total}", str(waiting), shown, style="bold green" if count == leader else None)
    return table


def _holding(record: "Record", now_s: float) -> int:
    """Return the number of jobs that have GPUs at this moment."""
    holds = record.gpu_intervals
    return int(((holds.start_s <= now_s) & (now_s < holds.end_s)).sum())
