"""Constants in files, datagrams and environments."""

ATTEMPT_ID = "ROTA_LIFE"
"""Environment variable that every process of an attempt carries, with a value no other attempt anywhere has."""

JOB_KEY = "ROTA_JOB_KEY"
"""Environment variable that every process of a job carries, with a value that no other job anywhere has."""

CPU_WEIGHT, CPUS, MEMORY_GIB = "ROTA_CPU_WEIGHT", "ROTA_CPUS", "ROTA_MEMORY_GIB"
"""Environment variables of a job with its share of the CPUs of a node, and the limits of its spec (`rota/agent/cgroups.py`)."""

RUN_FOLDER = "ROTA_RUN_DIR"
"""Environment variable that names a folder of the attempt, where the job can report its steps."""

URL_MARK = "://"
"""Part of a place for checkpoints that is the URL of a store, and not a path."""

SESSION = "session"
"""Value of `progress` for a job that reports its steps itself (`rota.train`)."""

STARTING, RUNNING, PARKED, ENDED = "starting", "running", "parked", "ended"
"""States. The first one is never written to a file: it is an order without a status."""

FINISHED, YIELDED, FAILED, LOST = "finished", "yielded", "failed", "lost"
"""Outcomes, as in `rota.model.events.Outcome`, which would import NumPy."""

SUSPEND, KILL, LEASE = "suspend", "kill", "lease"
"""Reasons for stopping: the command of that name, or the end of the lease."""

LAUNCH, RESUME, RESIZE = "launch", "resume", "resize"
"""The other commands of `rules`."""

RENEW, REPORT = "renew", "report"
"""Other datagrams to a supervisor: a new end of the lease, and a report of the job."""

STARTED, SUSPENDED, EXITED = "started", "suspended", "exited"
"""Replies about an attempt, besides that it is parked."""

PARK, WAKE, PREPARE = "park", "wake", "prepare"
"""Requests of a supervisor to the hook of a job. PARK is also the datagram that suspends an attempt by parking, and PREPARE the
one that gets host memory ready for that."""

HOOKED, RINGING, RESUMED, DAMAGED, LATER, UNPARKABLE = "hooked", "ringing", "resumed", "damaged", "later", "unparkable"
"""Reports of a hook besides `parked`: it is installed, got the signal, has resumed, got other memory back, can't park now, or can
never park."""

PARK_METHOD, PRELOAD, DRIVER = "ROTA_PARK", "preload", "driver"
"""Environment variable with the park method of a job, and two of its values, as in `rota/park/park_method.py`."""

PARK_PAGES = "ROTA_PARK_PAGES"
"""Environment variable with the preloaded library that makes host memory for parked jobs."""

PARK_SIGNAL = 45
"""Signal that calls the hook: a real-time signal, SIGRTMIN+11 with glibc."""

NODES = "rota/nodes"
"""Folder on a node that the agents of all homes share, below the user's state folder."""
