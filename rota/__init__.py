"""Rota decides who trains where, round after round, on a shared cluster of unequal GPUs."""

__version__ = "0.1.0"
