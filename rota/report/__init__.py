"""What happened: the figures of a run, and the limits no schedule could have beaten."""
