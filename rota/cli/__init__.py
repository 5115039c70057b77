"""The command `rota`: one file per command. Each imports what it needs when it runs, and has no logic of its own."""
