"""The command: one file per command, imports when needed, no logic of its own."""
