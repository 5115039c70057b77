"""As much progress as a budget allows, and something for every job."""

from dataclasses import dataclass

import rota


@dataclass(frozen=True)
class Budget:
    """The most progress, relative to a GPU of average type, within an hourly budget."""

    dollars_per_hour: float = 20.0
    floor: float = 0.25
    """Fraction of an equal share of the cluster that every job gets at least."""

    def allocate(self, view: rota.View) -> rota.Shares:
        program = rota.Program(view)
        progress = program.rate * (program.gpus / program.average_type_rate)
        program.subject_to(program.dollars_per_hour.sum() <= self.dollars_per_hour)
        program.subject_to(program.rate >= self.floor * program.equal_rate)
        program.maximise(program.members @ progress)
        program.maximise(rota.least(progress))
        return program.solve("vertex").shares(strict=True, key="progress for money")
