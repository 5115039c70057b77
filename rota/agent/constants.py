"""Constants that stand in files, datagrams and environments."""

ATTEMPT_ID = "ROTA_LIFE"
"""Environment variable that every process of an attempt carries, with a value no other attempt anywhere has."""

JOB_KEY = "ROTA_JOB_KEY"
"""Environment variable that every process of a job carries, with a value that no other job anywhere has."""

RUN_FOLDER = "ROTA_RUN_DIR"
"""Environment variable that names a folder of the attempt's own, where the job can tell how far it is."""

URL_MARK = "://"
"""In a place for checkpoints: it is the URL of a store, and no path."""

SESSION = "session"
"""In place of a pattern for progress: the job tells its steps itself (`rota.train`)."""

STARTING, RUNNING, PARKED, ENDED = "starting", "running", "parked", "ended"
"""States. The first one is never written down: it is an order without a status."""

FINISHED, YIELDED, FAILED, LOST = "finished", "yielded", "failed", "lost"
"""Outcomes, spelled as in `rota.model.events.Outcome`, which would import NumPy."""

SUSPEND, KILL, LEASE = "suspend", "kill", "lease"
"""What it was asked to end by: the command of that name, or its lease being over."""

LAUNCH, RESUME, RESIZE = "launch", "resume", "resize"
"""The other commands of `rules`."""

RENEW, REPORT = "renew", "report"
"""The other datagrams a supervisor takes: another end of the lease, and steps, from the job itself."""

STARTED, SUSPENDED, EXITED = "started", "suspended", "exited"
"""What is said of an attempt, besides that it is parked."""

PARK, WAKE = "park", "wake"
"""Suspend it by parking: a datagram to a supervisor. Both are also what a supervisor says to the hook of a job."""

HOOKED, RINGING, RESUMED, LATER, UNPARKABLE = "hooked", "ringing", "resumed", "later", "unparkable"
"""What a hook tells of its process, besides `parked`: it is in, it heard the signal, it goes on, it can't just now, it can't."""

PARK_WAY, BY_PRELOAD, BY_DRIVER = "ROTA_PARK", "preload", "driver"
"""Environment variable with the park method of a job, and its values for the preloaded allocator and the driver's checkpoint."""

PARK_SIGNAL = 45
"""What calls the hook: a real-time signal, SIGRTMIN+11 with glibc."""

NODES = "rota/nodes"
"""The folder that agents of a cluster share on a node, those of all homes, below the state folder of the user."""
