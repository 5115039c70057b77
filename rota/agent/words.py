"""Words that stand in files, letters and environments."""

LIFE = "ROTA_LIFE"
"""Environment variable that every process of an incarnation carries, with a value no other incarnation anywhere has."""

STARTING, RUNNING, ENDED = "starting", "running", "ended"
"""States. Nobody writes the first one down: it is an order without a status."""

FINISHED, YIELDED, FAILED, LOST = "finished", "yielded", "failed", "lost"
"""Outcomes, spelled as in `rota.model.events.Outcome`, which would take NumPy with it."""

SUSPEND, KILL, LEASE = "suspend", "kill", "lease"
"""What it was asked to end by: the command of that name, or its lease being over."""

RENEW, REPORT = "renew", "report"
"""The other letters a supervisor takes: a longer lease, and steps, from the job itself."""
