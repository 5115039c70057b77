"""The book: what clients get to see of each job. Kept beside the journal, in the same transactions, so that it survives with it.

The scheduler forgets a job when it has ended and never knew its command; the book remembers both.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from rota.agent.machine import Part
from rota.core.explain import explain, reasons
from rota.core.ledger import Ledger
from rota.live.local import where_text
from rota.model.events import CancelAsked, Exited, External, Outcome, Started, Suspended
from rota.model.job import Phase
from rota.model.reasons import Reason
from rota.wire.rows import ENDED, JobRow, ReasonRow, WhyRow


@dataclass
class Page:
    """One job: what was asked for, and what only the book remembers."""

    id: int
    spec: Mapping[str, Any]
    submitted_s: float
    started_s: float | None = None
    ended_s: float | None = None
    phase: str = "queued"
    suspensions: int = 0
    lost_steps: float = 0.0
    steps_done: float | None = None
    steps_total: float | None = None
    exit_code: int | None = None
    last_change: str = ""

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    def to_plain(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _KEPT}

    @classmethod
    def of(cls, job: int, spec: Mapping[str, Any], plain: Mapping[str, Any]) -> "Page":
        return cls(job, spec, **{name: plain[name] for name in _KEPT})


_KEPT = (
    "submitted_s",
    "started_s",
    "ended_s",
    "phase",
    "suspensions",
    "lost_steps",
    "steps_done",
    "steps_total",
    "exit_code",
    "last_change",
)


class Book:
    """Pages by job number, and how to find one by what people type."""

    def __init__(self) -> None:
        self.pages: dict[int, Page] = {}
        self._rows: dict[int, tuple[Any, JobRow]] = {}
        self.changed: set[int] = set()
        """Pages that the journal has not seen yet as they are."""

    def add(self, page: Page) -> None:
        self.pages[page.id] = page
        self.changed.add(page.id)

    def spec(self, job: int) -> Mapping[str, Any]:
        return self.pages[job].spec

    def note(
        self,
        events: Iterable[External],
        before: set[int],
        cancelling: set[int],
        lives: dict[int, int],
        state: Ledger,
        parts: Mapping[int, Part],
    ) -> None:
        """What events say about jobs; before them: those that had not ended, those told to, and the incarnation of those alive.

        An event may be a repeat, after a restart above all, and what an incarnation comes to counts once.
        """
        asked, finished = set(cancelling), set()
        for event in events:
            if isinstance(event, CancelAsked):
                asked.add(event.job)
            elif isinstance(event, Started | Suspended | Exited) and lives.get(event.job) == event.incarnation:
                if not isinstance(event, Started):
                    del lives[event.job]
                if isinstance(event, Exited) and event.outcome is Outcome.FINISHED:
                    finished.add(event.job)
                self._note(self.pages[event.job], event, parts.get(event.job))
        for job in before - state.row.keys():
            page = self.pages[job]
            page.phase = "finished" if job in finished else "cancelled" if job in asked else "failed"
            page.ended_s = page.ended_s if page.ended_s is not None else state.now_s
            page.last_change = f"{page.phase} at {iso(page.ended_s)}"
            self.changed.add(job)

    def _note(self, page: Page, event: Started | Suspended | Exited, part: Part | None) -> None:
        self.changed.add(page.id)
        if isinstance(event, Started):
            page.started_s = event.at_s if page.started_s is None else page.started_s
            page.last_change = f"started at {iso(event.at_s)}"
            return
        if part is not None:
            page.exit_code = part.exit_code
            page.steps_total = part.steps_total if part.steps_total is not None else page.steps_total
            if page.spec["progress"]:
                page.steps_done = part.steps_done if part.outcome == Outcome.FINISHED else part.steps_saved
                page.lost_steps += max(part.steps_done - part.steps_saved, 0.0) if part.outcome != Outcome.FINISHED else 0.0
        if isinstance(event, Exited) and event.outcome in (Outcome.FINISHED, Outcome.FAILED):
            page.ended_s = event.at_s
        else:
            page.suspensions += 1
            page.last_change = f"suspended at {iso(event.at_s)}"

    # Reading -----------------------------------------------------------------------------------------------------

    def rows(self, pages: Iterable[Page], state: Ledger, latest: Mapping[int, Part], now_s: float) -> list[JobRow]:
        codes, phases = reasons(state).tolist(), state.jobs.phase.tolist()
        found = []
        for page in pages:
            row = state.row.get(page.id)
            standing = (-1, 0) if row is None else (phases[row], codes[row])
            if page.id in latest or page.id in state.lives:
                found.append(self._row(page, state, standing, latest.get(page.id), now_s))
                continue
            # A job that waits, or has ended, looks the same until something happens to it; most jobs do at any moment.
            key = (standing, page.phase, page.started_s, page.ended_s, page.suspensions, page.exit_code, page.steps_done)
            kept = self._rows.get(page.id)
            if kept is None or kept[0] != key:
                kept = self._rows[page.id] = (key, self._row(page, state, standing, None, now_s))
            found.append(kept[1])
        return found

    def _row(self, page: Page, state: Ledger, standing: tuple[int, int], part: Part | None, now_s: float) -> JobRow:
        spec, row = page.spec, state.row.get(page.id)
        phase, accelerator, where, reason = page.phase, None, None, None
        done, rate = page.steps_done, None
        if row is not None:
            now, code = Phase(standing[0]), Reason(standing[1])
            phase = now.name.lower()
            reason = code.name if code is not Reason.NONE else None
            if now is Phase.QUEUED and page.started_s is not None:
                phase = "checkpointed"  # it ran before: what it has to resume from is its own affair
            life = state.lives.get(page.id)
            if life is not None and len(life.gpus):
                accelerator = state.cluster.pools[state.cluster.gpu_pool[life.gpus[0]]]
                where = where_text(state.cluster, life.gpus)
        if part is not None and spec["progress"]:
            done = part.steps_done
            if part.started_s is not None and now_s > part.started_s and row is not None:
                rate = max(part.steps_done - float(state.jobs.steps_saved[row]), 0.0) / (now_s - part.started_s)
        told = part.steps_total if part is not None and part.steps_total is not None else page.steps_total
        return JobRow(
            id=page.id,
            name=spec["name"],
            user=spec["user"],
            phase=phase,
            gpus=spec["gpus"],
            accelerator=accelerator,
            where=where,
            accepts=list(spec["accelerators"]),
            weight=spec["weight"],
            tenant=spec["tenant"],
            steps_done=done,
            steps_total=spec["steps"] if spec["steps"] is not None else told,
            steps_per_second=rate,
            reason=reason,
            submitted_at=iso(page.submitted_s) or "",
            started_at=iso(page.started_s),
            finished_at=iso(page.ended_s),
            suspensions=page.suspensions,
            lost_steps=page.lost_steps,
            exit_code=page.exit_code,
            command=spec["command"],
        )

    def why(self, page: Page, state: Ledger, latest: Mapping[int, Part], now_s: float) -> WhyRow:
        found = explain(state, page.id) if page.id in state.row else []
        ahead: list[Page] = []
        for explanation in found:
            ahead = [self.pages[job] for job in _numbers(explanation.facts.get("ahead")) if job in self.pages] or ahead
        return WhyRow(
            job=self.rows([page], state, latest, now_s)[0],
            reasons=[ReasonRow(code=e.code.name, sentence=e.sentence, facts=_plain(e.facts)) for e in found],
            ahead=self.rows(ahead[:20], state, latest, now_s),
            last_change=page.last_change or None,
        )


def iso(seconds: float | None) -> str | None:
    return (
        None
        if seconds is None
        else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


def _numbers(value: object) -> list[int]:
    return [int(each) for each in value] if isinstance(value, list | tuple) else []


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in facts.items()}
