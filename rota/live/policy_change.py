"""Tests a policy before it takes over: it is called once, and the core plans with its answer in a copy of the scheduler."""

import queue

from rota.core.scheduler import Scheduler
from rota.errors import OptionError
from rota.live.policy_client import PolicyClient
from rota.model.commands import CallPolicy
from rota.model.events import Decided, External, PolicyTimedOut, Submitted
from rota.model.job import JobSpec


def try_policy(scheduler: Scheduler, client: PolicyClient, named: str) -> None:
    """Call a policy as this scheduler would, and plan with its answer. Raise OptionError if either fails. The scheduler is a
    copy. If it has no job to call the policy about, one is made up."""
    answers: queue.SimpleQueue[External] = queue.SimpleQueue()
    client.answer = answers.put
    state, now_s = scheduler.state, scheduler.state.now_s
    if state.cycle.call_jobs is not None:
        scheduler.fold(now_s, [PolicyTimedOut(state.cycle.decision, now_s)])
    if not len(state.jobs.rows):
        scheduler.fold(now_s, [Submitted(max(state.jobs.last_job, 0) + 1, JobSpec(name="trial", gpus=1, steps=100.0), now_s)])
    commands = scheduler.commit(Decided(now_s, None, (), ticket=state.cycle.decision + 1))
    client.ask(next(command for command in commands if isinstance(command, CallPolicy)))
    try:
        scheduler.fold(now_s, [answers.get()])
        fault = state.cycle.policy_fault
        if not fault:
            scheduler.decide()
    except Exception as problem:  # only the copy of the core suffers from a bad answer
        fault = f"its answer cannot be planned with ({type(problem).__name__}: {problem})"
    if fault:
        raise OptionError(f"its first answer failed: {fault}.", field="policy", value=named, hint="rota policy check NAME")
