"""The state of the scheduler: columns where there are many, small frozen records elsewhere."""
