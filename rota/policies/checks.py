"""Checks of options that several policies have."""

from rota.errors import OptionError
from rota.model.units import FOREVER


def check_interval(policy: str, seconds: float) -> None:
    """Raise OptionError if the interval is too short or infinite."""
    if not 1 <= seconds < FOREVER:
        hint = f"{policy}:interval_seconds=60"
        raise OptionError("must be 1 or more.", field=f"{policy} interval_seconds", value=seconds, hint=hint)
