"""Tactics: improvements of any plan, whatever its policy. One file each."""
