"""Snapshots from before version 17 do not say which prices of jobs were measured."""

from rota.core.state.state import State


def find_measured_prices(state: State) -> None:
    """Note which prices of a restored state were measured: those that differ from the given ones."""
    table, costs = state.jobs.table, state.beliefs.costs
    for job, row in state.jobs.row.items():
        spec = state.jobs.specs[job]
        if table.move_seconds[row] != costs.move_of(spec):
            table.own("move_measured")[row] = True
        if spec.can_resize and table.resize_seconds[row] != costs.resize_seconds:
            table.own("resize_measured")[row] = True
