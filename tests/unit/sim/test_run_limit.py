"""Limits on run time in simulations."""

from pathlib import Path

import numpy as np

import rota


def test_a_job_that_reaches_its_limit_does_not_finish_and_frees_its_gpu(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("submit_time,gpus,duration,max_run_time\n0,1,1000,300\n0,1,100,\n10,1,200,5000\n")
    result = rota.simulate(str(trace), policy="fifo", cluster="1xV100", preset="ideal")
    jobs = result.jobs
    assert result.summary.finished == 2 and len(jobs) == 3
    ended = sorted(each["finished_s"] for each in jobs if each["finished_s"] is not None and np.isfinite(each["finished_s"]))
    assert ended == [400.0, 600.0], "the next job starts when the limit of the first is over"
    assert any("1 of 3 jobs reached their max_run_time" in note for note in result.params["notes"])
