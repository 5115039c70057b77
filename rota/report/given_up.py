"""Notes on jobs that did not finish: searches stopped them, or they reached their limit on run time."""

import numpy as np

from rota.sim.record import Record


def given_up_notes(record: Record) -> list[str]:
    """Return a sentence if searches stopped jobs, and one if jobs reached their limit."""
    jobs, limited = len(record.cancelled_s), record.over_limit
    searched = int(np.isfinite(record.cancelled_s).sum()) - limited
    found = [f"searches stopped {searched:,} of {jobs:,} jobs; JCTs are of the others"] if searched else []
    return found + ([f"{limited:,} of {jobs:,} jobs reached their max_run_time; JCTs are of the others"] if limited else [])
