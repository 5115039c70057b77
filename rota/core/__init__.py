"""The scheduler: a pure state machine. Events in, commands out. `docs/contributing/job-walkthrough.md` follows a job through."""
