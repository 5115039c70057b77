"""What a policy is: a value with one method. Constructor keywords are its whole configuration."""

from typing import Protocol, runtime_checkable

from rota.model.allocation import Allocation
from rota.model.view import View


@runtime_checkable
class Policy(Protocol):
    """Answers who deserves what. Pure: the same view gives the same answer."""

    def allocate(self, view: View) -> Allocation: ...
