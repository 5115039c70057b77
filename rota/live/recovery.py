"""Recovery: the scheduler as the journal left it. What was recorded is folded, and nothing is decided again."""

from collections.abc import Mapping
from typing import Any

from rota.core.scheduler import Scheduler
from rota.live.journal import Journal
from rota.live.replay import Make, configured_anew
from rota.model.codec import Codec


def recover(journal: Journal, words: Codec, make: Make, configuration: Mapping[str, Any]) -> Scheduler:
    """The last snapshot and the entries after it, each with the configuration of its time; from then on, with this one."""
    found = journal.snapshot()
    after = found[0] if found is not None else 0
    # The snapshot knows what was told up to its own entry; what was told after it is still to come.
    configured = journal.configuration(after) or journal.configuration(after + 1) or dict(configuration)
    scheduler = make(configured)
    if found is not None:
        scheduler.restore(found[1], words)
    for entry in journal.entries(after=after):
        now = journal.configuration(entry.number) or configured
        if now != configured:
            scheduler, configured = configured_anew(scheduler, make, configured, now), now
        scheduler.fold(entry.now_s, entry.events)
        scheduler.commit(entry.decided)
    return configured_anew(scheduler, make, configured, configuration) if configuration != configured else scheduler
