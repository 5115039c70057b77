"""Drivers in real time: the journal, the loop that keeps it, and the machines it drives."""
