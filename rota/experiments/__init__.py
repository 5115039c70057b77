"""A grid of simulations on all cores, that goes on where it stopped."""
