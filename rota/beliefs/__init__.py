"""Beliefs: rates and costs as the scheduler estimates them. The truth of a simulation is in `sim`."""
