"""Counts in sentences. This module loads nothing, so that commands that answer at once can use it."""


def counted(count: float, noun: str, nouns: str = "") -> str:
    """Return a count and its noun: `1 job`, `2,000 jobs`, `0.5 GPUs`."""
    number = f"{count:,.0f}" if count == int(count) else f"{count:,g}"
    return f"{number} {noun if count == 1 else nouns or noun + 's'}"


def are(count: float) -> str:
    return "is" if count == 1 else "are"
