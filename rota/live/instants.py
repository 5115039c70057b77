"""Instants as text: ISO 8601 in UTC."""

from datetime import UTC, datetime


def iso(seconds: float | None) -> str | None:
    """Return the instant in UTC; None if it is unknown, or not within the years 1 to 9999."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return None
