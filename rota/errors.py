"""The exceptions that Rota raises on purpose, as one tree.

RotaError                      has a message and, if there is one, the next step for the reader
├── InputError                 input cannot be used: the message names file, line, field and value
│   ├── TraceError             a trace file, or a row of it
│   ├── ClusterError           a cluster description
│   ├── ProfileError           a table of rates
│   ├── SpecError              a job spec
│   ├── UnknownNameError       a policy, placer, preset, format or option that does not exist
│   ├── OptionError            a value that a policy, placer or setting does not accept
│   ├── ConflictError          a request that contradicts an earlier one
│   └── NotYours               a folder or file that another user owns or can change
├── UnreachableError           no scheduler answers, or it refuses this client
│   └── NotRunningError        the scheduler of a home is not running; its journal and logs can be read
├── ForbiddenError             this user may not do this
├── BusyError                  the scheduler has not answered in time, or has too many clients
├── PolicyError                a policy raised, or its answer is not an allocation
├── TacticError                a tactic raised, or changed a plan in a way that is not allowed
├── SolverError                an optimisation problem has no solution, or none was found
├── JournalError               the journal cannot be read or written
├── CheckpointError            a checkpoint of a training script cannot be read or written
├── SimulationStalled          a simulation cannot continue, and jobs are unfinished
└── IllegalTransition          a phase change that the lifecycle does not allow: a defect of Rota itself

AssumptionWarning              is a warning: an input is unknown, and Rota made an assumption
"""

from collections.abc import Iterable

DEBUG = "ROTA_DEBUG"
"""Environment variable that enables tracebacks; `--debug` sets it."""


class RotaError(Exception):
    """Base of all errors that Rota raises. `hint` is the next step, without the leading `Try:`."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[object, ...]:
        """Keep the complete message when the error comes from another process."""
        return _arrived, (type(self), self.args, self.__dict__)


def _arrived(kind: type[RotaError], args: tuple[object, ...], fields: dict[str, object]) -> RotaError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


class AssumptionWarning(UserWarning):
    """An input is unknown, and Rota made an assumption. The commands print it as a note."""


class InputError(RotaError):
    """Input cannot be used. The message is `file:line  field: value — problem.`"""

    def __init__(
        self,
        problem: str,
        *,
        where: str = "",
        line: int | None = None,
        field: str = "",
        value: object = None,
        hint: str = "",
    ) -> None:
        place = f"{where}:{line}" if where and line is not None else where
        seen = f"{field}: {value!r}" if field and value is not None else field
        head = "  ".join(part for part in (place, seen) if part)
        super().__init__(f"{head} — {problem}" if head else problem, hint=hint)
        self.where, self.line, self.field, self.value = where, line, field, value


class TraceError(InputError):
    """A trace file, or a row of it, cannot be used."""


class ClusterError(InputError):
    """A cluster description cannot be used."""


class ProfileError(InputError):
    """A table of rates cannot be used."""


class SpecError(InputError):
    """A job spec cannot be used."""


class OptionError(InputError):
    """A policy, placer or setting does not accept this value."""


class ConflictError(InputError):
    """A request contradicts an earlier one."""


class NotYours(InputError, PermissionError):
    """A folder or file that another user owns or can change. Its contents are not trusted and not changed. The class is an
    OSError too, so code that handles files without permission handles this."""

    def __init__(self, problem: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(problem, where=where, hint=hint)
        self.strerror = self.message


MAX_COMPARED = 1_000
"""Maximum number of names searched for the closest one."""


class UnknownNameError(InputError):
    """A name that does not exist. The message proposes the closest one that does. Of names in order of age, the message lists the
    last `newest`."""

    def __init__(self, what: str, name: str, known: Iterable[str], *, newest: int | None = None, hint: str = "") -> None:
        import difflib  # here, because supervisors load this module and are to be up in a moment

        names = list(dict.fromkeys(known))
        near = difflib.get_close_matches(name, sorted(names[-MAX_COMPARED:]), n=1)
        closest = f" Closest: {near[0]}." if near else ""
        if newest is not None and len(names) > newest:
            which, shown = f"The newest {newest} of {len(names):,}", names[: -newest - 1 : -1]
        else:
            which, shown = "All", sorted(names) or ["none"]
        super().__init__(f"No {what} {name!r}.{closest} {which}: {', '.join(shown)}.", hint=hint)
        self.name = name


class UnreachableError(RotaError):
    """No scheduler answers at its address, or it refuses this client."""


class ForbiddenError(RotaError):
    """This user may not do this."""


class BusyError(RotaError):
    """The scheduler has not answered in time, or has too many clients. The same request may be sent again."""


class NotRunningError(UnreachableError):
    """The scheduler of this home is not running. Its journal and its logs can be read from disk."""


class PolicyError(RotaError):
    """A policy raised, or its answer is not an allocation."""


class TacticError(RotaError):
    """A tactic raised, or changed a plan in a way that is not allowed. `tactic` is the object, if it is known."""

    def __init__(self, message: str, *, hint: str = "", tactic: object = None) -> None:
        super().__init__(message, hint=hint)
        self.tactic = tactic


class SolverError(RotaError):
    """An optimisation problem has no solution, or none was found."""


class JournalError(RotaError):
    """The journal cannot be read or written."""


class CheckpointError(RotaError):
    """A checkpoint of a training script cannot be read or written."""


class SimulationStalled(RotaError):
    """A simulation cannot continue, and jobs are unfinished."""


class IllegalTransition(RotaError):
    """A phase change that the lifecycle does not allow. This is a defect of Rota itself."""
