"""Who should get what: one idea, one file. `docs/policies.md` says when to use which."""
