"""Parse request bodies. The result is either valid input for the daemon, or an error that names the field."""

import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NoReturn

from rota.errors import InputError, SpecError
from rota.files.csv_table import shown
from rota.files.tree import DEEPEST, TreeEntry
from rota.wire.job_filter import MAX_TOGETHER
from rota.wire.spec import spec_from
from rota.wire.submission import Submission, naming

MAX_USER_CHARS = 100
MAX_PATH_CHARS = 4096
MAX_IDEMPOTENCY_KEY_CHARS = 200
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
MAX_KEY_CHARS = 200
"""Maximum length of a job's key, which is that of a name."""
_SEVERAL_HINT = '{"jobs": [{"spec": {"run": ...}}, ...], "user": ..., "workdir": ..., "env": {...}}'
_HINT = '{"spec": {"run": ...}, "user": ..., "workdir": ..., "env": {...}}'


def read_submission(raw: bytes) -> Submission:
    return _submission(_parsed(raw))


def read_submissions(raw: bytes) -> list[Submission]:
    """Parse several jobs. Fields outside the list apply to all jobs, unless a job has its own."""
    plain = _parsed(raw)
    jobs = plain.pop("jobs", None) if isinstance(plain, dict) else None
    if not isinstance(jobs, list):
        raise InputError("the request is not a JSON object with a list of jobs.", hint=_SEVERAL_HINT)
    if len(jobs) > MAX_TOGETHER:
        raise InputError(f"are {len(jobs):,}; a request has at most {MAX_TOGETHER:,}.", field="jobs", hint="several requests")
    if "spec" in plain:
        raise InputError("is outside the list of jobs; each job has its own.", field="spec", hint=_SEVERAL_HINT)
    shared, found = _env(plain.pop("env", {})), []
    keys: set[tuple[str, str]] = set()
    for index, job in enumerate(jobs):
        with naming(index):
            if not isinstance(job, dict):
                raise InputError("the job is not a JSON object.", hint=_SEVERAL_HINT)
            one = _submission({**plain, **job}, shared)
            if one.idempotency_key and (one.user, one.idempotency_key) in keys:
                raise InputError(
                    "is used twice in this request.", field="idempotency_key", value=one.idempotency_key, hint="another key"
                )
            keys.add((one.user, one.idempotency_key))
            found.append(one)
    return found


def read_cancellations(raw: bytes) -> list[str]:
    """Parse the ids or names of jobs."""
    plain, hint = _parsed(raw), '{"jobs": [412, "vit-huge"]}'
    keys = plain.get("jobs") if isinstance(plain, dict) and set(plain) == {"jobs"} else None
    if not isinstance(keys, list) or not all(isinstance(key, str | int) and not isinstance(key, bool) for key in keys):
        raise InputError("is not a list of ids or names of jobs.", field="jobs", hint=hint)
    if len(keys) > MAX_TOGETHER:
        raise InputError(f"are {len(keys):,}; a request has at most {MAX_TOGETHER:,}.", field="jobs", hint="several requests")
    for index, key in enumerate(keys):
        if not 0 < len(str(key)) <= MAX_KEY_CHARS:
            raise InputError("is not the id or name of a job.", field=f"jobs.{index}", value=shown(str(key)), hint=hint)
    return [str(key) for key in keys]


def _submission(plain: Any, shared: Mapping[str, str] = MappingProxyType({})) -> Submission:
    if not isinstance(plain, dict):
        raise InputError("the request is not a JSON object.", hint=_HINT)
    for name in plain:
        if name not in ("spec", "user", "workdir", "env", "idempotency_key"):
            raise InputError("unknown field.", field=shown(name), hint=_HINT)
    return Submission(
        spec=spec_from(_entry(plain.get("spec", {}), "", 0)),
        user=_user(plain.get("user")),
        workdir=_workdir(plain.get("workdir")),
        env={**shared, **_env(plain.get("env", {}))},
        idempotency_key=_idempotency_key(plain.get("idempotency_key")),
    )


def read_policy(raw: bytes) -> str:
    plain, hint = _parsed(raw), '{"policy": "fifo"}'
    named = plain.get("policy") if isinstance(plain, dict) and set(plain) == {"policy"} else None
    if not isinstance(named, str) or not named.strip() or not named.isprintable() or len(named) > MAX_PATH_CHARS:
        raise InputError("is not the name of a policy.", field="policy", value=shown(str(named)), hint=hint)
    return named.strip()


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise InputError("the request is nested too deeply.", hint=_HINT) from None
    except ValueError as problem:
        raise InputError(f"the request is not JSON: {shown(str(problem))}.", hint=_HINT) from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def _entry(value: Any, name: str, depth: int) -> TreeEntry:
    """Convert a spec to the tree of a YAML file, so that its errors are the same, except for line numbers."""
    if depth > DEEPEST:
        raise SpecError("is nested too deeply.", field=shown(name), hint="is it a spec?")
    inner = value
    if isinstance(value, dict):
        inner = {_clean(key, name): _entry(each, f"{name}.{key}" if name else key, depth + 1) for key, each in value.items()}
    elif isinstance(value, list):
        inner = [_entry(each, f"{name}[{i}]", depth + 1) for i, each in enumerate(value, 1)]
    elif isinstance(value, str):
        inner = _clean(value, name)
    return TreeEntry("", 0, name, inner, SpecError)


def _clean(text: str, name: str) -> str:
    """Return the text if it can be written to a file or given to a process. Raise SpecError if it contains surrogates."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise SpecError("is not valid text: it contains half a character.", field=shown(name), hint="write it as UTF-8") from None
    return text


def _user(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > MAX_USER_CHARS:
        raise InputError("is not the name of a user.", field="user", value=shown(str(value)), hint=_HINT)
    return value


def _idempotency_key(value: Any) -> str | None:
    if value is None:
        return None
    if (
        not isinstance(value, str)
        or not value.isprintable()
        or not 1 <= len(value.strip()) <= len(value) <= MAX_IDEMPOTENCY_KEY_CHARS
    ):
        raise InputError(
            f"is not a text of 1 to {MAX_IDEMPOTENCY_KEY_CHARS} characters.",
            field="idempotency_key",
            value=shown(str(value)),
            hint='"idempotency_key": "4f1c0d7e"',
        )
    return value


def _workdir(value: Any) -> str:
    # A relative path would start at the daemon's folder, which users do not know, so it is refused.
    if (
        not isinstance(value, str)
        or len(value) > MAX_PATH_CHARS
        or "\0" in value
        or not PurePosixPath(_clean(value, "workdir")).is_absolute()
    ):
        raise InputError("is not an absolute path.", field="workdir", value=shown(str(value)), hint='"workdir": "/home/ana/run"')
    return value


def _env(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise InputError("is not a mapping.", field="env", hint='"env": {"PATH": "/usr/bin"}')
    for name, text in value.items():
        if not _ENV_NAME.fullmatch(name) or not isinstance(text, str) or "\0" in _clean(text, f"env.{name}"):
            raise InputError("cannot be an environment variable.", field=f"env.{shown(name)}", hint="a name and a text")
    return dict(value)
