"""The protocol between the scheduler and its clients: job specs, rows, errors, and a Python client."""
