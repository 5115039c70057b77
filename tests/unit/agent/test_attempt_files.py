"""Files of an attempt, as this version and the version before write them."""

import json
from pathlib import Path

from rota.agent.attempt_files import StatusFile, read_status, write_status
from rota.agent.disk import STATUS


def test_a_status_is_read_as_it_was_written(tmp_path: Path) -> None:
    status = StatusFile(job=3, attempt=2, sequence=1, state="running", pid=17)
    write_status(tmp_path, status)
    found = read_status(tmp_path)
    assert found is not None and (found.job, found.attempt, found.state, found.pid) == (3, 2, "running", 17)


def test_a_supervisor_of_the_version_before_is_understood(tmp_path: Path) -> None:
    """It keeps running when the scheduler is replaced, and calls an attempt an incarnation."""
    write_status(tmp_path, StatusFile(job=3, attempt=2, sequence=1, state="running"))
    value = json.loads((tmp_path / STATUS).read_bytes())
    value["incarnation"] = value.pop("attempt")
    (tmp_path / STATUS).write_text(json.dumps(value))
    found = read_status(tmp_path)
    assert found is not None and found.attempt == 2
