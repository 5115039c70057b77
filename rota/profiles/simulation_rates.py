"""Rates of a simulation: measured ones from a file or from a folder that Pollux or ElasticFlow published, else the catalogue."""

from dataclasses import replace
from pathlib import Path

from rota.beliefs.rates import Rates
from rota.files.inputs import input_is_folder
from rota.profiles.catalogue import Catalogue
from rota.profiles.measured_rates import read_measured
from rota.profiles.scaling import read_step_times


def read_rates(path: Path | str) -> Rates:
    """What the file says, or the folder of Pollux or ElasticFlow; the built-in catalogue for profiles that are not in it."""
    if input_is_folder(path):
        return Rates(model=read_step_times(path))
    return replace(read_measured(path), model=Catalogue())
