"""Versions that a machine computes with, and how machines differ."""

import json
import subprocess
import sys

import numpy as np

import rota
from rota.experiments.versions import differences, versions


def test_the_same_machine_tells_the_same_twice() -> None:
    command = [sys.executable, "-P", "-m", "rota.experiments.versions"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert told == versions() and differences(versions(), told) == []
    assert told["rota"] == rota.__version__ and told["numpy"] == np.__version__


def test_every_difference_is_told() -> None:
    ours = {"rota": "1.0", "sources": "a", "Python": "3.12.1", "numpy": "2.1", "plug-in mine": "my-policies 3"}
    assert differences(ours, {**ours, "plug-in yours": "others 1"}) == []
    assert differences(ours, {**ours, "sources": "b"}) == ["rota 1.0 with other source files"]
    theirs = {"rota": "1.1", "sources": "b", "Python": "3.13.0", "numpy": ""}
    assert differences(ours, theirs) == ["rota 1.1, not 1.0", "Python 3.13.0, not 3.12.1", "no numpy", "no plug-in mine"]
