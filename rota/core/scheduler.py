"""The scheduler: one step folds events and returns commands. It has no clock, no input or output, and no randomness.

    commands = scheduler.step(now_s, events)

A driver carries the commands out and returns events. Recovery calls `fold` with recorded events and `commit` with recorded
decisions. It never calls `decide`, so it decides nothing again.
"""

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Self

from rota.beliefs.move_costs import MoveCosts
from rota.beliefs.rates import SAME_SPEED, Rates
from rota.beliefs.skews import Skews
from rota.beliefs.variability import Variability
from rota.core import snapshot
from rota.core.fold.apply import HANDLERS, advance, apply, set_clock, timer_was_set
from rota.core.fold.configured import Configured, CoreEvent, configure
from rota.core.fold.drains import next_change_s
from rota.core.fold.run_limit import next_limit_s
from rota.core.fold.tenancy import set_tenants, settle
from rota.core.learn.cordon import cordon
from rota.core.learn.job_lengths import predict_lengths
from rota.core.plan.planner import make_plan
from rota.core.reconcile import reconcile, renewals, unknown_attempt_kills
from rota.core.settings import Settings
from rota.core.setup import GivenBeliefs, Setup
from rota.core.state.state import State
from rota.model.cluster import Cluster
from rota.model.codec import Codec, Plain
from rota.model.commands import CallPolicy, Command, SetTimer
from rota.model.events import Decided
from rota.model.placement_view import Placer
from rota.model.units import FOREVER
from rota.model.view import Jobs, View


class Scheduler:
    """The interface of the core. The policy is not part of it: calling it is a command."""

    def __init__(
        self,
        cluster: Cluster,
        placer: Placer,
        settings: Settings | None = None,
        *,
        rates: Rates = SAME_SPEED,
        costs: MoveCosts | None = None,
        variability: Variability | None = None,
        skews: Skews | None = None,
    ) -> None:
        given = GivenBeliefs(rates=rates, costs=costs or MoveCosts(), skews=skews or Skews(), scores=variability)
        self.setup = Setup(settings=settings or Settings(), placer=placer, given=given)
        """The setup in force."""
        self.settings, self.placer = self.setup.settings, placer
        learning = (variability or Variability.alike(cluster.gpus)) if self.settings.learn_variability else None
        sharing = self.settings.tactics.colocating is not None
        self.state = State.empty(cluster, rates, given.costs, learning or variability, given.skews, learning, sharing)
        cordon(self.state, self.settings)

    @classmethod
    def of(cls, cluster: Cluster, setup: Setup) -> Self:
        """Return a scheduler that is set up like this and has no jobs yet."""
        given = setup.given
        scores = given.scores_of(cluster.gpus)
        made = cls(
            cluster,
            setup.placer,
            setup.settings,
            rates=given.rates,
            costs=given.costs,
            variability=scores,
            skews=given.skews,
        )
        made.setup = setup
        if setup.tenants is not None:
            set_tenants(made.state, setup.tenants)
        return made

    def step(self, now_s: float, events: Sequence[CoreEvent]) -> list[Command]:
        """Fold events, decide, and return the commands. A driver with a journal makes these three calls itself."""
        self.fold(now_s, events)
        return self.commit(self.decide())

    def fold(self, now_s: float, events: Sequence[CoreEvent]) -> None:
        """Fold events into the state. Time never runs backwards here, whatever the events say."""
        state, settings = self.state, self.settings
        set_clock(state, settings, now_s)
        if state.tenants.tenants is not None and events:
            settle(state, state.now_s)
        for event in events:
            if isinstance(event, Configured):
                configure(state, self.setup, event.setup)
                self.setup, self.placer = event.setup, event.setup.placer
                self.settings = settings = event.setup.settings
            else:
                HANDLERS[type(event)](state, settings, event)
        advance(state, settings)

    def decide(self) -> Decided | None:
        """Return what to do next, without a change of the state; None if there is nothing to do."""
        state, settings = self.state, self.settings
        due = state.cycle.has_new_answer or self._due()
        if not (due or state.jobs.to_reconcile or state.jobs.unknown_attempts or self._has_timers()):
            return None  # the usual case: a reply came as expected
        plan, ticket = None, None
        if due:
            if state.cycle.has_new_answer or not self._must_ask():
                plan = make_plan(state, settings, self.placer)
            else:
                ticket = state.cycle.decision + 1
        commands = reconcile(state, settings, plan)
        renewed = renewals(state, settings) if settings.lease_seconds < FOREVER else ()
        strays = unknown_attempt_kills(state) if state.jobs.unknown_attempts else ()
        if plan is None and ticket is None and not (commands or renewed or strays):
            return None
        return Decided(state.now_s, plan, tuple(commands), tuple(renewed), tuple(strays), ticket)

    def commit(self, decided: Decided | None) -> list[Command]:
        """Fold a decision, made now or recorded earlier, and return its commands."""
        commands: list[Command] = []
        if decided is not None:
            apply(self.state, self.settings, decided)
            commands = [*decided.commands, *decided.renewals, *decided.unknown_attempt_kills]
            if decided.ticket is not None:
                commands.append(CallPolicy(decided.ticket, self.view()))
        wake_s = self._next_wake_s()
        if wake_s != self.state.cycle.timer_s:
            timer_was_set(self.state, wake_s)
            commands.append(SetTimer(wake_s))
        return commands

    def view(self) -> View:
        """Return the view that a policy would get now."""
        state = self.state
        usable, capacity = state.usable()
        return View(
            now_s=state.now_s,
            jobs=Jobs(state.jobs.table, state.jobs.rows, state.now_s, state.beliefs.options),
            options=state.beliefs.options,
            cluster=state.nodes.cluster,
            capacity=capacity,
            tenants=tuple(state.jobs.tenant_of),
            history_gpu_seconds=state.beliefs.past(),
            memory=None if state.cycle.answer is None or self._stale() else state.cycle.answer.allocation.memory,
            seed=self.settings.seed,
            decision=state.cycle.decision,
            usable=usable,
            predictions=predict_lengths(state, state.jobs.rows) if self.settings.needs_predictions else None,
            placements=MappingProxyType(state.jobs.desired),
        )

    def fork(self, policy: str | None = None) -> "Scheduler":
        """Return an independent copy, for forecasts and what-if. `policy`: policy that the copy calls from now on."""
        twin = Scheduler.__new__(Scheduler)
        twin.setup, twin.settings, twin.placer, twin.state = self.setup, self.settings, self.placer, self.state.copy()
        if policy is not None:
            twin.settings = replace(self.settings, policy=policy)
        return twin

    def snapshot(self, codec: Codec) -> Plain:
        """Return the whole state as plain data."""
        return snapshot.take(self.state, codec)

    def restore(self, plain: Plain, codec: Codec) -> None:
        """Restore the state of a snapshot."""
        self.state = snapshot.restore(plain, codec, self.setup.given.rates)

    def _has_timers(self) -> bool:
        """Return whether there are leases to renew, or commands to send again."""
        settings = self.settings
        return settings.lease_seconds < FOREVER or (settings.retry_seconds < FOREVER and bool(self.state.jobs.in_flight))

    def _due(self) -> bool:
        state, cycle, decide = self.state, self.state.cycle, self.settings.decide
        if cycle.call_jobs is not None or state.now_s < cycle.retry_policy_s:
            return False
        if state.jobs.row and state.now_s >= decide.round_begins_s(cycle.next_round_s):
            return True
        if not decide.at_events:
            return False
        if cycle.needs_plan or state.now_s >= cycle.until_s:
            return True
        return (cycle.needs_policy or self._stale()) and state.now_s >= self._may_ask_s()

    def _must_ask(self) -> bool:
        """Return whether the answer in force can no longer be used, and the policy may be called."""
        state = self.state
        if state.cycle.answer is None:
            return True
        if state.now_s < self._may_ask_s():
            return False
        allocation = state.cycle.answer.allocation
        over = state.now_s >= allocation.until_s
        if self.settings.decide.at_events and not allocation.reusable:
            over = over or state.now_s >= state.cycle.until_s  # a timer of one of its jobs
        return state.cycle.needs_policy or not self.settings.selection.lasts(allocation) or over or self._stale()

    def _stale(self) -> bool:
        """Return whether the answer in force is from another policy."""
        answer = self.state.cycle.answer
        return answer is not None and answer.policy != self.settings.policy

    def _may_ask_s(self) -> float:
        """Return the earliest time at which the policy may be called."""
        return max(self.state.cycle.retry_policy_s, self.settings.decide.may_ask_s(self.state.cycle.called_s))

    def _next_wake_s(self) -> float:
        state, cycle, settings = self.state, self.state.cycle, self.settings
        wake_s = FOREVER
        if cycle.call_jobs is None and len(state.jobs.rows):
            decide = settings.decide
            wake_s = decide.round_begins_s(cycle.next_round_s)
            if decide.at_events:
                if cycle.until_s < wake_s:
                    wake_s = cycle.until_s
                if cycle.needs_policy or self._stale():
                    wake_s = min(wake_s, self._may_ask_s())
            if wake_s < cycle.retry_policy_s:
                wake_s = cycle.retry_policy_s
        if settings.retry_seconds < FOREVER and state.jobs.in_flight:
            reachable = (f.sent_s for job, f in state.jobs.in_flight.items() if not state.jobs.is_unreachable(job))
            wake_s = min(wake_s, min(reachable, default=FOREVER) + settings.retry_seconds)
        if settings.lease_seconds < FOREVER and state.jobs.attempts:
            wake_s = min(wake_s, self._next_lease_s())
        if state.jobs.setbacks:
            pauses = (each.until_s for each in state.jobs.setbacks.values() if each.until_s > -FOREVER)
            wake_s = min(wake_s, min(pauses, default=FOREVER))
        if "max_run_seconds" in state.jobs.table.in_use:
            wake_s = min(wake_s, next_limit_s(state))
        if state.nodes.drains:
            wake_s = min(wake_s, next_change_s(state))
        if settings.node_timeout_seconds < FOREVER and state.nodes.node_up.any():
            heard_s = float(state.nodes.node_heard_s[state.nodes.node_up].min())
            wake_s = min(wake_s, heard_s + settings.node_timeout_seconds)
        return wake_s if wake_s > state.now_s else state.now_s

    def _next_lease_s(self) -> float:
        """Return the time at which the next lease must be renewed, or ends without a renewal."""
        state, settings = self.state, self.settings
        rows = [state.jobs.row[job] for job in state.jobs.attempts]
        lease = state.jobs.table.lease_s[rows]
        renewable = lease - settings.renewed_at_seconds
        end = lease + settings.lease_margin_seconds
        return float(min(renewable[renewable > state.now_s].min(initial=FOREVER), end.min(initial=FOREVER)))
