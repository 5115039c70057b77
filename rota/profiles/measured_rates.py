"""Measured rates from a file: Rota's own table or Gavel's JSON."""

from pathlib import Path

from rota.beliefs.rates import Rates
from rota.errors import ProfileError
from rota.files.text import read_text
from rota.profiles import gavel_rates, rates_csv


def read_measured(path: Path | str) -> Rates:
    """Read the rates of a file, and only those."""
    return gavel_rates.read_rates(path) if is_json(read_text(path, ProfileError)) else rates_csv.read_rates(path)


def is_json(text: str) -> bool:
    """Return whether a text is JSON. No table starts with a bracket."""
    return text.lstrip()[:1] in ("{", "[")
