"""The scheduler process: its HTTP API, who may use it, and how it starts and stops."""
