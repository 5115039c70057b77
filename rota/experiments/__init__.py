"""Experiments: many simulations on all cores or on a cluster, kept in a folder and continued after a stop."""
