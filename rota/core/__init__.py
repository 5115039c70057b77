"""The scheduler: a pure state machine. Events in, commands out; `docs/walk.md` follows one job through it."""
