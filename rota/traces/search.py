"""Searches for hyper-parameters: jobs that try different settings of the same model, most of which are not worth continuing."""

from dataclasses import dataclass

from rota.errors import OptionError


@dataclass(frozen=True, slots=True)
class Search:
    """A search sees after `steps` steps how good a job is. Once `keep` better jobs have made those steps too, the job is stopped.

    So the best `keep` jobs always train to the end. When the others stop depends on the progress of the jobs, and so on the
    schedule.
    """

    jobs: tuple[str, ...]
    """Names of the jobs, the best first. The order is unknown to the search until the jobs have made those steps."""
    steps: float
    """Number of steps after which a job shows how good it is."""
    keep: int
    """Number of jobs that train to the end."""

    def __post_init__(self) -> None:
        if not self.steps > 0:
            raise OptionError("must be more than 0.", field="steps of a search", value=self.steps, hint="Search(names, 300, 4)")
        if self.keep < 1:
            raise OptionError("must be 1 or more.", field="keep of a search", value=self.keep, hint="Search(names, 300, 4)")
