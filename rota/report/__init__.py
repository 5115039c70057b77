"""Reports on runs: their figures, and bounds that no schedule can beat."""
