"""Measured rates of training jobs, read from files into what the scheduler believes."""
