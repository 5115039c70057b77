"""A policy is an object with the method `allocate`. The keywords of its constructor are its whole configuration."""

from typing import Protocol, runtime_checkable

from rota.model.allocation import Allocation
from rota.model.view import View


@runtime_checkable
class Policy(Protocol):
    """Decides what each job deserves. A policy is pure: the same view gives the same allocation."""

    def allocate(self, view: View) -> Allocation: ...
