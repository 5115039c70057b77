"""The doctor's findings about a journal in PostgreSQL."""

import contextlib
from pathlib import Path

import pytest

from rota.compose.live_scheduler import JOURNAL_CODEC
from rota.doctor.home_checks import check_jobs, check_journal
from rota.live.election import Election
from rota.live.journal_history import KeptJob, Noted
from rota.live.journal_place import find_journal, open_journal, save_journal_location
from rota.wire.spec import Spec
from rota.wire.submission import Submission, encode_submission
from tests.postgres import postgres_server


def told(home: Path) -> list[tuple[str, str]]:
    return [(each.check, each.state) for each in check_journal(home)]


@pytest.mark.slow
def test_a_journal_in_postgresql(tmp_path: Path) -> None:
    with postgres_server() as server:
        place = find_journal(tmp_path, server.url)
        save_journal_location(tmp_path, place)
        assert told(tmp_path) == [("journal", "ok")]
        election = Election(place)  # type: ignore[arg-type]
        with contextlib.closing(election):
            assert election.try_to_lead()
            with contextlib.closing(open_journal(place, JOURNAL_CODEC, election.epoch)) as journal:
                for number in (1, 2):
                    folder = str(tmp_path if number == 1 else tmp_path / "gone")
                    sent = encode_submission(Submission(Spec(run="train", name=f"j{number}"), "ana", folder, {}))
                    journal.append(1.0, [], None, Noted({number: KeptJob(sent, {}, False)}))
            found = list(check_journal(tmp_path))
            assert [(each.check, each.state) for each in found] == [("journal's server", "ok"), ("journal", "ok"), ("lead", "ok")]
            assert "2 entries, 2 jobs" in found[1].found and "(epoch 1) is leader" in found[2].found
            assert [each.state for each in check_jobs(tmp_path)] == ["fail"]
        assert told(tmp_path)[-1] == ("lead", "warn")
        schema = place.schema  # type: ignore[union-attr]
        server.query(f"DELETE FROM {schema}.entries WHERE number = 1")
        assert ("journal", "fail") in told(tmp_path)
        server.query(f"UPDATE {schema}.meta SET value = '99' WHERE key = 'schema'")
        assert told(tmp_path) == [("journal", "fail")]
        server.crash()
        (away,) = check_journal(tmp_path)
        assert away.state == "fail" and "cannot be reached" in away.found and "psql" in away.next
        assert list(check_jobs(tmp_path)) == []
        server.start()
