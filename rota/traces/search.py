"""A search for hyper-parameters: jobs that try the same with other settings, most of which are not worth going on with."""

from dataclasses import dataclass

from rota.errors import OptionError


@dataclass(frozen=True, slots=True)
class Search:
    """After so many steps a job shows how good it is. Once `keep` better ones have shown it too, it is stopped.

    So the best `keep` always train to the end. When the others stop follows from how far the jobs have come, and with that from
    who was let run when.
    """

    jobs: tuple[str, ...]
    """Names of the jobs, the best first. No one knows the order before the jobs have made those steps."""
    steps: float
    """After so many it shows."""
    keep: int
    """So many train to the end."""

    def __post_init__(self) -> None:
        if not self.steps > 0:
            raise OptionError("must be more than 0.", field="steps of a search", value=self.steps, hint="Search(names, 300, 4)")
        if self.keep < 1:
            raise OptionError("must be 1 or more.", field="keep of a search", value=self.keep, hint="Search(names, 300, 4)")
