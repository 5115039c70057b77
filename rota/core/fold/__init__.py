"""Events become state."""
