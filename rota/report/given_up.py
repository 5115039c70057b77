"""Note on jobs that searches stopped."""

import numpy as np

from rota.sim.record import Record


def given_up_notes(record: Record) -> list[str]:
    """Return a sentence if searches stopped jobs."""
    count = int(np.isfinite(record.cancelled_s).sum())
    return [f"searches stopped {count:,} of {len(record.cancelled_s):,} jobs; JCTs are of the others"] if count else []
