"""Policies: what each job deserves. One idea, one file. `docs/policies.md` says when to use which."""
