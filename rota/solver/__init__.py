"""The maths: programs over shares of time, solved as arrays."""
