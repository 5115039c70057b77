"""How long jobs train: learned from those that finish, noted while they run, and compared when they end."""

import numpy as np

from rota.beliefs.lengths import EPOCH_SECONDS, USUAL_EPOCHS, epochs_left
from rota.beliefs.rates import model_of
from rota.core.state.state import State
from rota.model.foresight import Foresight, Prediction
from rota.model.units import Floats, Ints

KEPT = 256
"""Lengths remembered of each model, the latest; and predictions of all."""
MOST_PREDICTIONS = 4096
NOTED = 16
"""What is believed of a job is noted each time it has trained twice as long, so often at most."""


def foresee(state: State, rows: Ints) -> Foresight:
    """What is foreseen of these jobs."""
    table, jobs = state.jobs.table, state.jobs
    ids = table.id[rows].tolist()
    told = np.array([jobs.specs[job].epoch_steps for job in ids], dtype=np.float64)
    epoch_steps = np.where(told > 0, told, EPOCH_SECONDS * table.nominal_rate[rows])
    since = (state.now_s - table.as_of_s[rows]) * (table.using[rows] > 0)
    done = (table.steps_done[rows] + table.rate[rows] * since) / epoch_steps
    lengths = state.knowledge.lengths
    known = [length for each in lengths.values() for length in each]
    usual = float(np.mean(known)) if known else USUAL_EPOCHS
    left: Floats = np.zeros(len(rows))
    models = np.array([model_of(jobs.specs[job].profile) for job in ids], dtype=object)
    for model in dict.fromkeys(models.tolist()):
        mine = models == model
        left[mine] = epochs_left(done[mine], lengths.get(model, ()), usual)
    return Foresight(epoch_steps, done, left)


def note(state: State) -> None:
    """The policy is being asked: what is believed now is noted of jobs that have trained twice as long since the last time."""
    rows = state.jobs.rows
    seen = foresee(state, rows)
    foreseen = state.knowledge.foreseen
    for at in (seen.epochs >= 1.0).nonzero()[0].tolist():
        job = state.jobs.table.id.item(rows.item(at))
        before = foreseen.get(job, ())
        if len(before) < NOTED and (not before or seen.epochs.item(at) >= 2 * before[-1][0]):
            foreseen[job] = (*before, (seen.epochs.item(at), seen.epochs.item(at) + seen.epochs_left.item(at)))


def finished(state: State, job: int, row: int) -> None:
    """A job ran to its end."""
    spec, table, knowledge = state.jobs.specs[job], state.jobs.table, state.knowledge
    epochs = table.steps_done.item(row) / (spec.epoch_steps or EPOCH_SECONDS * table.nominal_rate.item(row))
    model = model_of(spec.profile)
    knowledge.lengths[model] = (*knowledge.lengths.get(model, ()), epochs)[-KEPT:]
    notes = knowledge.foreseen.pop(job, ())
    if notes:
        made = tuple(Prediction(model, at, believed, epochs) for at, believed in notes)
        knowledge.predictions = (*knowledge.predictions, *made)[-MOST_PREDICTIONS:]
