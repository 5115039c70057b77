"""Tactics: what any plan may gain, whatever policy it came from. One file each."""
