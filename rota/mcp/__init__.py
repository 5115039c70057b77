"""A Model Context Protocol server: programs use a scheduler through the verbs of the commands."""
