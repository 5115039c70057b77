"""Constants that stand in files, datagrams and environments."""

LIFE = "ROTA_LIFE"
"""Environment variable that every process of an incarnation carries, with a value no other incarnation anywhere has."""

STARTING, RUNNING, ENDED = "starting", "running", "ended"
"""States. The first one is never written down: it is an order without a status."""

FINISHED, YIELDED, FAILED, LOST = "finished", "yielded", "failed", "lost"
"""Outcomes, spelled as in `rota.model.events.Outcome`, which would import NumPy."""

SUSPEND, KILL, LEASE = "suspend", "kill", "lease"
"""What it was asked to end by: the command of that name, or its lease being over."""

RENEW, REPORT = "renew", "report"
"""The other datagrams a supervisor takes: a longer lease, and steps, from the job itself."""
