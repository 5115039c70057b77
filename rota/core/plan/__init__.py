"""Who runs where next."""
