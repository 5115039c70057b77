"""A home that starts with more GPUs, with fewer, with others, and dies in between: `rota up` as an operator would start it."""

import subprocess
import sys
from pathlib import Path

from rota.compose.live_scheduler import JOURNAL_CODEC, make_scheduler
from rota.core.validate import validate
from rota.live.replay import replay
from tests.live.harness import Site, site, until


def rota(place: Site, *words: str) -> str:
    command = [sys.executable, "-m", "rota", *words, "--home", str(place.home)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def phase(place: Site, job: int) -> str:
    return place.rows()[job].phase


def test_the_cluster_of_a_home_changes_under_real_jobs(tmp_path: Path) -> None:
    with site(tmp_path, pretend="4xV100") as place:
        wide = place.submit(4, 400, 0.05, name="wide")
        narrow = [place.submit(1, 40, 0.05, name=f"narrow-{i}") for i in range(4)]
        until(lambda: phase(place, wide) == "running" or place.rows()[wide].started_at is not None, "the wide job starts")
        place.down()

        place.up(pretend="2xV100")
        until(lambda: f"job {wide} cannot run now" in place.said(), "the operator is told")
        assert "the cluster has changed: n1 (4xV100) left; n1 (2xV100) joined" in place.said()
        assert "UNSATISFIABLE" in rota(place, "why", str(wide)) and "largest pool it accepts has 2" in rota(place, "why", "wide")
        assert "requests more than the cluster has" in rota(place, "show", str(wide))
        until(lambda: any(place.rows()[job].started_at is not None for job in narrow), "the others run on what is left")
        place.kill()  # whatever it was doing

        place.up(pretend="1xV100 + 1xK80")
        place.kill()  # amid the change, if it was quick enough
        place.up(pretend="1xV100 + 1xK80")
        until(lambda: all(phase(place, job) == "finished" for job in narrow), "the narrow jobs finish")
        assert phase(place, wide) in ("queued", "checkpointed"), "it is kept"
        place.down()

        place.hurry()
        place.up(pretend="1xK80 + 4xV100")
        until(lambda: phase(place, wide) == "finished", "the GPUs are back, and the wide job finishes")
        rows = place.rows()
        assert place.violations() == ""
        assert all(row.steps_done == row.steps_total and row.lost_steps == 0 for row in rows.values()), rows
        place.down()
        journal = place.journal()
        for _, scheduler, difference in replay(journal, JOURNAL_CODEC, make_scheduler):
            assert difference is None, difference
            validate(scheduler.state)
        journal.close()
