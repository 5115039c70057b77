"""The log of a real job: its limit, and its later attempts."""

from pathlib import Path

from rota.agent.log import MIN_LIMIT_BYTES, log_end, read_log
from tests.live.agent.bench import Bench


def on_disk(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def test_a_flood_stays_below_the_limit_and_its_end_is_kept(bench: Bench) -> None:
    limit = 1 << 20
    script = "head -c 100000000 /dev/zero | tr '\\0' x | fold -w 99; echo step 7/9; echo the end"
    bench.machine.launch(bench.sh(script, log_bytes=limit, progress=r"step (\d+)/(\d+)"))
    part = bench.wait()
    assert (part.outcome, part.steps_done, part.steps_total) == ("finished", 7.0, 9.0), "progress is found after many files"
    assert on_disk(bench.home / "logs") <= limit + 1000
    end = log_end(bench.log())
    assert end > 100_000_000
    start, data = read_log(bench.log(), end - 200, 1000)
    assert start == end - 200 and data.endswith(b"step 7/9\nthe end\n--- rota: finished ---\n")
    start, data = read_log(bench.log(), 0, limit)
    assert end - limit <= start <= end - limit // 2 and len(data) == end - start, "both files, as one stream"
    assert b"continues" not in data


def test_a_later_attempt_goes_on_in_the_same_stream(bench: Bench) -> None:
    for attempt in (1, 2, 3):
        bench.machine.launch(bench.sh("seq 1 5000", attempt=attempt, sequence=attempt, log_bytes=MIN_LIMIT_BYTES))
        bench.wait(attempt=attempt)
    assert on_disk(bench.home / "logs") <= MIN_LIMIT_BYTES + 1000
    assert read_log(bench.log(), log_end(bench.log()) - 40, 100).data.endswith(b"5000\n--- rota: finished ---\n")
