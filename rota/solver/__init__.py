"""Mathematics: programs over shares of time, solved as arrays."""
