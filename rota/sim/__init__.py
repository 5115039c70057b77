"""The simulator: a driver with a virtual clock. It runs the same core as live schedulers, on modelled machines."""
