"""Turns names, files and presets into values: the only room that knows what a policy is called."""
