"""How long jobs train: learned from those that finish, noted while they run, and compared when they end."""

import numpy as np

from rota.beliefs.lengths import EPOCH_SECONDS, USUAL_EPOCHS, epochs_left
from rota.beliefs.rates import model_of
from rota.core.state.state import State
from rota.model.length_prediction import LengthPrediction, LengthPredictions
from rota.model.units import FOREVER, Floats, Ints

KEEP_LENGTHS = 256
"""Number of latest lengths that are kept for each model."""
MAX_PREDICTIONS = 4096
"""Number of latest predictions that are kept."""
NOTED = 16
"""Most predictions that are noted of a job: one each time that it has trained twice as long."""


def predict_lengths(state: State, rows: Ints) -> LengthPredictions:
    """Predict the lengths of these jobs."""
    table, lengths = state.jobs.table, state.beliefs.lengths
    epoch_steps = _epoch_steps(state, rows)
    since = (state.now_s - table.as_of_s[rows]) * (table.gpus_in_use[rows] > 0)
    done = (table.steps_done[rows] + table.rate[rows] * since) / epoch_steps
    known = [length for each in lengths.values() for length in each]
    usual = float(np.mean(known)) if known else USUAL_EPOCHS
    left: Floats = np.zeros(len(rows))
    numbers: dict[str, int] = {}
    of_kind = np.array([numbers.setdefault(model_of(kind.profile), len(numbers)) for kind in state.jobs.kind_of], dtype=np.int64)
    model = of_kind[table.kind[rows]]
    for name, number in numbers.items():
        mine = (model == number).nonzero()[0]
        if len(mine):
            left[mine] = epochs_left(done[mine], lengths.get(name, ()), usual)
    return LengthPredictions(epoch_steps, done, left)


def _epoch_steps(state: State, rows: Ints) -> Floats:
    """Return the steps of an epoch: as stated, or else the steps of a fixed time."""
    table = state.jobs.table
    stated = table.epoch_steps[rows]
    found: Floats = np.where(stated > 0, stated, EPOCH_SECONDS * table.nominal_rate[rows])
    return found


def note(state: State) -> None:
    """Note the predictions for jobs that have trained twice as long since their last note, as the policy is called."""
    rows, table, foreseen = state.jobs.rows, state.jobs.table, state.beliefs.predicted
    seen = predict_lengths(state, rows)
    for at in (seen.epochs >= np.maximum(2 * table.noted_epochs[rows], 1.0)).nonzero()[0].tolist():
        row, done = rows.item(at), seen.epochs.item(at)
        before = foreseen.get(table.id.item(row), ())
        table.noted_epochs[row] = done if len(before) + 1 < NOTED else FOREVER
        foreseen[table.id.item(row)] = (*before, (done, done + seen.epochs_left.item(at)))


def finished(state: State, job: int, row: int) -> None:
    """Learn from a job that ran to its end."""
    beliefs, table = state.beliefs, state.jobs.table
    epochs = table.steps_done.item(row) / (table.epoch_steps.item(row) or EPOCH_SECONDS * table.nominal_rate.item(row))
    if epochs <= 0:
        return  # it had nothing to do, or did not report its steps
    model = model_of(state.jobs.specs[job].profile)
    latest = (epochs,)
    beliefs.lengths[model] = beliefs.lengths.get(model, ())[1 - KEEP_LENGTHS :] + latest
    notes = beliefs.predicted.pop(job, ())
    if notes:
        made = tuple(LengthPrediction(model, at, believed, epochs) for at, believed in notes)
        beliefs.predictions = (*beliefs.predictions, *made)[-MAX_PREDICTIONS:]
