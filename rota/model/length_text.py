"""Lengths of time as text, as users write them."""


def length_text(seconds: float) -> str:
    """Return a length of time such as `12h`, `1h30m`, `2d` or `90s`, without parts that are zero."""
    whole = round(seconds)
    if abs(seconds - whole) > 1e-9 or whole < 120:
        return f"{seconds:g}s"
    found = ""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, whole = divmod(whole, size)
        found += f"{count}{unit}" if count else ""
    return found
