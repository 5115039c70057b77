"""Workloads: jobs and their arrival times, read from files of several formats or generated from a seed."""

from rota.traces.synthetic import synthetic as synthetic
