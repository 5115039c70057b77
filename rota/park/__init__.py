"""Parking: suspend a job in host memory and free its GPU memory, without a change to its script.

`park_method.py` chooses the park method, `facts.py` finds out what that depends on, and `park_environment.py` returns the
variables that the launcher adds. The launcher puts the folder `hook` in front of the job's PYTHONPATH. The hook runs inside the
job, in any Python from 3.8 on.
"""
