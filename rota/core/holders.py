"""Who has each GPU: nobody, one job, or two that share it. Two columns, filled from the first: below 0 there means free."""

from rota.model.units import Ints

NOBODY = -1


def join(first: Ints, second: Ints, gpus: Ints, job: int) -> None:
    """A job comes, as the second where there is one already."""
    free = first[gpus] < 0
    first[gpus[free]] = job
    second[gpus[~free]] = job


def leave(first: Ints, second: Ints, gpus: Ints, job: int) -> None:
    """A job goes. Where it was the first, the second moves up."""
    mine = gpus[first[gpus] == job]
    first[mine] = second[mine]
    second[mine] = NOBODY
    second[gpus[second[gpus] == job]] = NOBODY


def those_on(first: Ints, second: Ints, gpus: Ints) -> set[int]:
    """Everybody who has one of these GPUs."""
    return {*first[gpus].tolist(), *second[gpus].tolist()} - {NOBODY}
