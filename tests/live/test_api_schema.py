"""Every request that the description of the API allows, and many that it does not: a real scheduler never answers with a defect.

The description says what is answered: statuses, content types and fields are checked against it.
"""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

schemathesis = pytest.importorskip("schemathesis")

from hypothesis import HealthCheck, settings  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from rota.server.http_api import make_app  # noqa: E402
from rota.server.identities import Identities  # noqa: E402
from tests.examples import scaled  # noqa: E402
from tests.live.harness import Site, site  # noqa: E402

pytestmark = pytest.mark.slow

EXAMPLES = scaled(40)
"""For each request that the API knows, besides those at the edges of what is allowed."""
HELD = "first"
"""The job that holds the GPU: no request ends it, so that what others would run does not run."""
CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
OURS = {"GET", "POST"}
NUMBERS = itertools.count()
KEPT_FIELDS = 2
NEARLY_ALWAYS_REFUSED = ("progress",)

API = schemathesis.openapi.from_dict(make_app(None, Identities("x" * 20)).openapi())  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Its one GPU is held by a job that does not end, so the others wait."""
    with site(tmp_path_factory.mktemp("site"), pretend="1xV100", policy="fifo") as made:
        made.client().submit(["sleep", "3600"], name=HELD)
        made.client().submit("true", name="second")
        yield made
        assert "Traceback" not in made.errors() and made.process is not None and made.process.poll() is None


def tamed(body: Any, folder: Path) -> Any:
    """The same request, but if its job should run, it runs `true`, in a folder of the test. Of every second spec a few fields are
    kept, so that strange values are not hidden behind others that are refused."""
    if isinstance(body, dict) and isinstance(body.get("jobs"), list):
        return {**body, "jobs": [_tamed_job(each, folder) for each in body["jobs"]]}
    if not isinstance(body, dict) or not isinstance(body.get("spec"), dict):
        return body
    spec, draw = dict(body["spec"]), random.Random(repr(sorted(body["spec"])))
    others = sorted(set(spec) - {"run", *NEARLY_ALWAYS_REFUSED})
    if len(others) > KEPT_FIELDS and draw.random() < 0.5:
        kept = {"run", *draw.sample(others, KEPT_FIELDS)}
        spec = {name: value for name, value in spec.items() if name in kept}
    run = spec.get("run")
    if isinstance(run, str) and run.strip():
        spec["run"] = ["true", run]
    elif isinstance(run, list) and run:
        spec["run"] = ["true", *run]
    changed = {**body, "spec": spec}
    if isinstance(body.get("idempotency_key"), str) and len(body["idempotency_key"]) < 100 and draw.random() < 0.8:
        changed["idempotency_key"] += f" {next(NUMBERS)}"  # a key that stays would be a conflict
    if isinstance(changed.get("workdir"), str) and changed["workdir"].startswith("/") and "\0" not in changed["workdir"]:
        changed["workdir"] = str(folder)
        if isinstance(spec.get("workdir"), str) and spec["workdir"].startswith("/"):
            spec["workdir"] = "a"
    return changed


@API.parametrize()
@settings(max_examples=EXAMPLES, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_no_request_is_answered_with_a_defect(case: Any, place: Site) -> None:
    client = place.client()
    case.body = tamed(case.body, place.work)
    key = (case.path_parameters or {}).get("key")
    if isinstance(key, str) and (len(key) % 2 or _may_be_held(key)):
        case.path_parameters = {**case.path_parameters, "key": "second"}
    if case.path.endswith("/changes") and case.query:
        case.query = {name: "0.01" if name == "timeout" and _is_number(value) else value for name, value in case.query.items()}
    headers = {**(case.headers or {}), "Authorization": f"Bearer {client._transport._token}", "Host": "localhost"}
    response = case.call(base_url=client.url, headers=headers, timeout=60)
    checks = CHECKS if case.method.upper() in OURS and case.method.upper() == case.operation.method.upper() else CHECKS[:1]
    case.validate_response(response, checks=checks)
    assert response.headers["rota-version"]


def _tamed_job(job: Any, folder: Path) -> Any:
    """One of several: a submission, or the key of a job."""
    if isinstance(job, dict):
        return tamed(job, folder)
    return "second" if _may_be_held(job) else job


def _may_be_held(key: Any) -> bool:
    """Whether a request for this job could mean the one that holds the GPU."""
    return str(key).strip() in ("1", "true", "True", "1.0") or HELD.startswith(str(key))


def _is_number(value: Any) -> bool:
    try:
        return float(value) >= 0
    except (TypeError, ValueError):
        return False
