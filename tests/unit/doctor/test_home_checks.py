"""Checks of a home that an earlier version wrote."""

import json
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from rota.compose.live_scheduler import JOURNAL_CODEC
from rota.core.snapshot import READABLE
from rota.doctor.home_checks import check_journal
from rota.live.journal import Journal

OLD = Path(__file__).parents[1] / "live" / "journals" / "before-attempts.sql"


@pytest.mark.parametrize("version", [READABLE[0] - 1, READABLE[0], READABLE[-1], READABLE[-1] + 1])
def test_a_snapshot_of_a_version_that_can_be_read_is_no_fault(tmp_path: Path, version: int) -> None:
    path = tmp_path / "journal.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(OLD.read_text(encoding="utf-8"))
    Journal(path, JOURNAL_CODEC).close()
    with closing(sqlite3.connect(path)) as database:
        ((number, packed),) = database.execute("SELECT number, state FROM snapshots ORDER BY number DESC LIMIT 1")
        state = {**json.loads(zlib.decompress(packed)), "version": version}
        database.execute("UPDATE snapshots SET state = ? WHERE number = ?", (zlib.compress(json.dumps(state).encode()), number))
        database.commit()
    (diagnosis,) = check_journal(tmp_path)
    if version in READABLE:
        assert "is complete: " in diagnosis.found
    else:
        assert f"has a snapshot of version {version}, and this Rota reads {READABLE[0]} to {READABLE[-1]}" in diagnosis.found
