"""Agents: on each machine, they start job processes, watch them through detached supervisors, and report their status.

`machine.Machine` is what a driver holds. One supervisor per attempt (`supervisor`) outlives the daemon; the two share nothing
but files, locks and datagrams (`disk`, `datagrams`, `records`). Both decide by `rules`, a pure file that chaos runs too.
Home must be on a local disk of the machine. Linux only.
"""
