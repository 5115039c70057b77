"""Check a journal in PostgreSQL: its server, its entries, and the leader."""

import contextlib
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rota.doctor.diagnosis import Diagnosis, fail, ok, warn
from rota.errors import RotaError
from rota.live.election import Election
from rota.live.journal_place import PostgresLocation, has_journal
from rota.live.postgres_store import PostgresStore

Rows = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
"""Function that returns the rows of a statement with these values."""


def check_postgres(place: PostgresLocation, check_entries: Callable[[Rows, str, str], Diagnosis]) -> Iterator[Diagnosis]:
    """Check a journal in PostgreSQL. `check_entries` checks its entries."""
    try:
        if not has_journal(place):
            yield ok("journal", f"none yet in {place}: no scheduler has used it")
            return
        with contextlib.closing(PostgresStore(place)) as store:
            ((version,),) = store.rows("SHOW server_version")
            yield ok("journal's server", f"PostgreSQL {version} answers at {place.url}")
            another = "restore a backup of this schema; without one, use another --home, which loses its jobs"
            try:
                yield check_entries(store.rows, str(place), another)
            except (ValueError, TypeError, KeyError, zlib.error) as problem:
                yield fail("journal", f"{place} is damaged: {problem}", another)
        with contextlib.closing(Election(place)) as election:
            yield _lead(election)
    except RotaError as problem:
        yield fail("journal", problem.message, problem.hint)


def _lead(election: Election) -> Diagnosis:
    leader = election.leader()
    if election.is_led():
        return ok("lead", f"{leader or 'a process that has just started'} is leader")
    return warn(
        "lead", f"no scheduler is leader; the last was {leader}" if leader else "no scheduler has been leader yet", "rota up"
    )


def unfinished_jobs(place: PostgresLocation) -> list[tuple[int, dict[str, Any]]]:
    with contextlib.closing(PostgresStore(place)) as store:
        rows = store.rows("SELECT id, spec FROM jobs WHERE ended = 0 ORDER BY id")
        return [(number, json.loads(spec)) for number, spec in rows]
