"""The scheduler: a pure state machine. Events in, commands out; `docs/contributing/walk.md` follows one job through it."""
