"""Notifications: what is sent when something happens to a job, and to where."""

from enum import StrEnum
from ipaddress import ip_address
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rota.errors import OptionError, SpecError

MAX_URL = 2000


class Occasion(StrEnum):
    """What may be notified of."""

    STARTED = "started"
    """The job has started."""
    FINISHED = "finished"
    FAILED = "failed"
    """The job has failed, and has no other try."""
    PREEMPTED = "preempted"
    """The job had to give up its GPUs to other jobs."""


class Notify(BaseModel):
    """A notification: either a URL or a command."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    on: list[Occasion] = Field(
        default_factory=lambda: [Occasion.FINISHED, Occasion.FAILED],
        min_length=1,
        description="Events: started, finished, failed or preempted. Default: finished and failed.",
    )
    url: str | None = Field(
        None, max_length=MAX_URL, description="URL that gets a POST with JSON: https, or http to this machine itself."
    )
    run: list[str] | None = Field(
        None, min_length=1, max_length=1000, description="Instead: command as an argument vector. Only operators may give one."
    )

    @field_validator("url")
    @classmethod
    def _safe(cls, value: str | None) -> str | None:
        if value is not None:
            check_url(value)
        return value

    @field_validator("run")
    @classmethod
    def _runs(cls, value: list[str] | None) -> list[str] | None:
        if value is not None and (not value[0] or any("\0" in each for each in value)):
            raise ValueError("is not a command as an argument vector")
        return value

    @model_validator(mode="after")
    def _one(self) -> "Notify":
        if (self.url is None) == (self.run is None):
            raise ValueError("needs either url or run")
        return self


def check_url(url: str) -> None:
    """Raise ValueError unless notifications may go to a URL: one with https, or with http to this machine itself."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or not url.isascii() or not url.isprintable() or " " in url or parts.scheme not in ("http", "https"):
        raise ValueError("is not a URL with https")
    if parts.username is not None or parts.password is not None:
        raise ValueError("contains a name or a password. Put a secret into the path")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ValueError("is http to another machine. Write https")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_notify(notify: Notify | None, *, operator: bool, uid: int | None) -> None:
    """Raise unless a job may have this notification. A command runs on the scheduler's machine as the scheduler's user, so only
    operators may give one, and none if jobs run as other users."""
    if notify is None or notify.run is None:
        return
    if uid is not None:
        problem = "is a command, and this scheduler runs jobs as their users; it sends notifications to URLs only."
        raise SpecError(problem, field="notify.run", hint="notify: {url: https://...}")
    if not operator:
        raise OptionError("is a command, which only an operator may give.", field="notify.run", hint="notify: {url: https://...}")
