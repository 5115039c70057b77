"""Rates of a simulation: measured rates from a file or from a folder that Pollux or ElasticFlow published, and otherwise the
catalogue."""

from dataclasses import replace
from pathlib import Path

from rota.beliefs.rates import Rates
from rota.files.inputs import input_is_folder
from rota.profiles.catalogue import Catalogue
from rota.profiles.measured_rates import read_measured
from rota.profiles.scaling import read_step_times


def read_rates(path: Path | str) -> Rates:
    """Read the rates of a file, or of a folder of Pollux or ElasticFlow. Profiles that it does not have come from the built-in
    catalogue."""
    if input_is_folder(path):
        return Rates(model=read_step_times(path))
    return replace(read_measured(path), model=Catalogue())
