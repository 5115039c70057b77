"""The contract: what goes between people, clients and the scheduler."""
