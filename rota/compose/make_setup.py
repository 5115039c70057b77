"""Makes the setup of a scheduler from a study, for simulations and for live schedulers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rota.compose.parse_tactics import make_tactics
from rota.compose.policy_tenants import with_tenants
from rota.compose.registry import make_placer, make_policy, split_pair
from rota.compose.study import Study
from rota.core.decision_timing import AtEvents, AtRounds, DecisionTiming, WholeSteps
from rota.core.plan.tactic import Tactics
from rota.core.settings import Settings
from rota.core.setup import GivenBeliefs, Setup
from rota.errors import OptionError
from rota.model.needs import Needs, needs_of
from rota.model.placement_view import Placer
from rota.model.policy import Policy
from rota.model.tenants import Tenants
from rota.model.units import FOREVER

PACKED = "packed"
"""Default placer."""
DECIDE = ("events", "rounds", "both")


@dataclass(frozen=True)
class Parts:
    """The policy, the placer and the tactics that a study names."""

    policy_name: str
    policy: Policy
    placer_name: str
    placer: Placer
    tactics: Tactics

    @property
    def needs(self) -> Needs:
        return needs_of(self.policy)

    @property
    def makes_trials(self) -> bool:
        """Whether a tactic colocates jobs, and so measures pairs that the policy does not use."""
        return self.tactics.colocating is not None and not self.needs.colocation


def find_parts(study: Study, options: Mapping[str, Mapping[str, str]] | None = None, tenants: Tenants | None = None) -> Parts:
    """Return the parts of a study. A policy `A+B` names the placer too. `options` has options of some names that the study does
    not set. A policy that serves tenants gets these, unless it names its own."""
    named, placer = study.policy, study.placer
    if isinstance(named, str):
        named, pair = split_pair(named)
        if pair is not None and placer is not None:
            hint = f"--policy {named}, or leave --placer out"
            raise OptionError("a placer is named twice.", field="placer", value=placer, hint=hint)
        placer = placer if placer is not None else pair
    placer = placer if placer is not None else PACKED
    policy = make_policy(named, options)
    if tenants is not None:
        policy = with_tenants(policy, tenants)
    return Parts(
        named if isinstance(named, str) else type(named).__qualname__,
        policy,
        placer if isinstance(placer, str) else type(placer).__name__,
        make_placer(placer, options),
        make_tactics(study.tactics or needs_of(policy).tactics),
    )


def make_setup(study: Study, parts: Parts, base: Settings, given: GivenBeliefs, tenants: Tenants | None = None) -> Setup:
    """Return the setup of a scheduler. The study, and the needs of its policy, override `base`."""
    slowest, least = study.cordon_slower_than, study.min_run_factor
    settings = replace(
        base,
        decide=when_to_decide(base.decide, study.decide, study.round_seconds),
        policy=parts.policy_name,
        colocation=parts.needs.colocation,
        needs_predictions=parts.needs.predictions,
        min_run_factor=least if least is not None else base.min_run_factor,
        wait_for_locality=study.wait_for_locality,
        tactics=parts.tactics,
        cordon_slower_than=slowest if slowest is not None else FOREVER,
    )
    return Setup(settings=settings, placer=parts.placer, given=given, tenants=tenants)


def when_to_decide(preset: DecisionTiming, decide: str | None, round_seconds: float | None) -> DecisionTiming:
    """Return when the core decides: as the study sets, or as its preset does. A length alone means rounds of this length."""
    if decide is not None and decide not in DECIDE:
        raise OptionError(f"not one of {', '.join(DECIDE)}.", field="decide", value=decide, hint="--decide events")
    length = round_seconds or round_length_seconds(preset)
    if decide in ("rounds", "both") and not length:
        raise OptionError("rounds need a length.", field="decide", value=decide, hint="--round-seconds 360")
    if round_seconds is not None and not 0 < round_seconds < FOREVER:
        raise OptionError("must be more than 0.", field="round_seconds", value=round_seconds, hint="--round-seconds 360")
    if decide is None and round_seconds is None:
        return preset
    solve_every = preset.solve_every_seconds
    if decide == "events":
        return preset if isinstance(preset, AtEvents) else AtEvents(solve_every_seconds=solve_every)
    if isinstance(preset, WholeSteps) and decide != "both":
        return replace(preset, round_seconds=length)
    return AtRounds(round_seconds=length, at_events=decide == "both", solve_every_seconds=solve_every)


def round_length_seconds(decide: DecisionTiming) -> float:
    """Return the length of a round in seconds; 0 if there are no rounds."""
    return 0.0 if isinstance(decide, AtEvents) else decide.round_seconds
