"""A submission: a spec with its user, working directory and environment."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rota.errors import ConflictError, InputError, OptionError, RotaError, SpecError
from rota.wire.spec import Spec


@dataclass(frozen=True, slots=True)
class Submission:
    """A spec, and what comes with it."""

    spec: Spec
    user: str
    workdir: str
    env: Mapping[str, str]
    idempotency_key: str = ""
    """Key chosen by the client; empty if there is none."""


@contextmanager
def naming(index: int) -> Iterator[None]:
    """Add the index of a job, counted from 0, to errors about one of several jobs."""
    try:
        yield
    except InputError as error:
        kind = next((each for each in (SpecError, OptionError, ConflictError) if isinstance(error, each)), InputError)
        again = kind(f"jobs[{index}]  {error.message} None of the jobs was taken.", hint=error.hint)
        again.field = ".".join(part for part in ("jobs", str(index), error.field) if part)
        raise again from None
    except RotaError as error:
        raise RotaError(f"jobs[{index}]  {error.message}", hint=error.hint) from None
