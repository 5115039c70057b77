"""What happened becomes state."""
