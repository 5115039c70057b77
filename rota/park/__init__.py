"""Parking: a job sleeps on its host and gives its GPU memory back, without a line of its own for it.

`ways.py` decides how a job can be parked, `facts.py` looks up what that depends on, and `environment.py` says what the launcher
adds. The folder `hook` is put in front of PYTHONPATH of the job: it runs inside the job, in any Python from 3.8 on.
"""
