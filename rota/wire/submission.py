"""What comes with a new job, and with several that are submitted together."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rota.errors import ConflictError, InputError, OptionError, RotaError, SpecError
from rota.wire.spec import Spec


@dataclass(frozen=True, slots=True)
class Submission:
    """What comes with a new job."""

    spec: Spec
    user: str
    workdir: str
    env: Mapping[str, str]
    idempotency_key: str = ""
    """Of the client's choice; empty: none."""


@contextmanager
def naming(index: int) -> Iterator[None]:
    """Errors about this job of several say which one it is, counted from 0."""
    try:
        yield
    except InputError as error:
        kind = next((each for each in (SpecError, OptionError, ConflictError) if isinstance(error, each)), InputError)
        again = kind(f"jobs[{index}]  {error.message} None of the jobs was taken.", hint=error.hint)
        again.field = ".".join(part for part in ("jobs", str(index), error.field) if part)
        raise again from None
    except RotaError as error:
        raise RotaError(f"jobs[{index}]  {error.message}", hint=error.hint) from None
