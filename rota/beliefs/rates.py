"""Estimated rates: steps per second of a profile on an accelerator type, measured, modelled or from relative speeds."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, TypeVar, runtime_checkable

from rota.beliefs.efficiency import Efficiency
from rota.beliefs.locality import Locality
from rota.model.accelerators import ACCELERATORS, REFERENCE
from rota.model.job import Demand

T = TypeVar("T")
V = TypeVar("V")

Key = tuple[str, str, int]
"""Profile, accelerator type, GPUs."""

SPEEDS: Mapping[str, float] = {
    name: round(card.bandwidth_gb_s / ACCELERATORS[REFERENCE].bandwidth_gb_s, 2) for name, card in ACCELERATORS.items()
}
"""Memory bandwidth of each type divided by that of a V100. A rough rule for unprofiled jobs: training is often bound by
bandwidth. A type that is not listed counts as a V100."""

UNPROFILED_UNCERTAINTY = 0.5
"""Uncertainty of the rough rule, as a relative standard deviation."""

NEGLIGIBLE_RATE = 1e-6
"""Steps per second of a job that is estimated not to run, where an option or a measurement needs a rate. Never worth taking."""


class Source(Protocol):
    """A source of rates for profiles without measurements, such as the catalogue or an estimator."""

    def rate(self, profile: str, accelerator: str, gpus: int, levels: int = 0) -> tuple[float, float] | None:
        """Return (steps per second of the whole gang, relative spread). The rate is 0 if the profile does not fit; None if the
        profile is unknown. `levels` is the number of levels of locality that the gang spans, 0 in one node. More levels are never
        faster, and the rate is 0 across levels only if it is 0 in one node."""
        ...


@runtime_checkable
class Learner(Source, Protocol):
    """A source that takes measurements, and knows pairs too."""

    def observed(
        self, profile: str, accelerator: str, gpus: int, rate: float, colocated_with: str = "", levels: int = 0
    ) -> "Learner": ...
    def colocated_rates(
        self, first: str | None, second: str | None, accelerator: str, gpus: int
    ) -> tuple[tuple[float, float], float] | None: ...
    def tried(self, profile: str, accelerator: str, gpus: int) -> bool:
        """Return whether the profile was measured there, or is known from a reference."""
        ...


@dataclass(frozen=True)
class Rates:
    """Measured rates, a model for profiles without measurements, and relative speeds for jobs without a profile."""

    table: Mapping[Key, float] = field(default_factory=dict)
    """Steps per second of the whole gang in one node."""
    speeds: Mapping[str, float] = field(default_factory=lambda: SPEEDS)
    """Accelerator type -> speed of an unprofiled job, in steps per second."""
    across_nodes: Mapping[Key, float] = field(default_factory=dict)
    """Steps per second of the whole gang across nodes, with the keys of `table`."""
    pairs: Mapping[tuple[str, str, str, int], tuple[float, float]] = field(default_factory=dict)
    """(first profile, second profile, accelerator type, GPUs) -> steps per second of each while both share these GPUs."""
    batches: Mapping[tuple[str, str, int, int], float] = field(default_factory=dict)
    """(profile, accelerator type, GPUs, batch size) -> steps per second at that batch size."""
    model: Source | None = None
    """Source for profiles that were not measured."""
    spread_penalty: Locality | None = None
    """Factor by which a gang is slower across nodes, instead of what was measured or modelled; None to use the latter."""
    everywhere: str = ""
    """Accelerator type whose rates all types have; empty if each has its own."""
    efficiency: Efficiency = field(default_factory=Efficiency)
    """How much training a step does at each batch size."""

    @cached_property
    def _together(self) -> dict[tuple[str, str], list[int]]:
        return _counts(self.table)

    @cached_property
    def _apart(self) -> dict[tuple[str, str], list[int]]:
        return _counts(self.across_nodes)

    @cached_property
    def _profiles(self) -> frozenset[str]:
        return frozenset(profile for profile, _, _ in (*self.table, *self.across_nodes))

    @cached_property
    def _learner(self) -> Learner | None:
        """The model, if it learns. The check takes longer than most answers, so it is cached."""
        return self.model if isinstance(self.model, Learner) else None

    @cached_property
    def _spread_profiles(self) -> frozenset[str]:
        return frozenset(profile for profile, _, _ in self.across_nodes)

    def rate(self, profile: str | None, accelerator: str, gpus: int, levels: int = 0) -> tuple[float, float]:
        """Return (steps per second, relative spread) of a gang that spans this many levels of locality, 0 in one node. A rate of
        0 means that the profile is known not to run."""
        kind = self.everywhere or accelerator
        if levels and self.spread_penalty is not None:
            rate, spread = self.rate(profile, accelerator, gpus)
            return rate / self.spread_penalty.slowdown(profile, levels), spread
        if profile is None or profile not in self._profiles:
            known = self.model.rate(profile, kind, gpus, levels) if profile and self.model is not None else None
            return known if known is not None else (self.speeds.get(kind, 1.0), UNPROFILED_UNCERTAINTY)
        if levels and (profile, kind) in self._apart:
            rate, spread = self._nearest(self.across_nodes, self._apart, profile, kind, gpus)
            return rate / self._further(profile, kind, gpus, levels), spread
        if (profile, kind) in self._together:
            return self._nearest(self.table, self._together, profile, kind, gpus)
        # Measured over several nodes only. In one node the profile is at least as fast.
        return (
            self._nearest(self.across_nodes, self._apart, profile, kind, gpus) if (profile, kind) in self._apart else (0.0, 0.0)
        )

    def rate_of(
        self, profile: str | None, demand: Demand, accelerator: str, gpus: int, batch_size: int = 0, levels: int = 0
    ) -> tuple[float, float]:
        """Return (steps per second, relative spread) of a job at one of its accepted sizes. Steps are counted at the requested
        batch size: a step with another batch counts as many as do as much training. A profile that names its batch
        (`cifar10/global2048`, or `cifar10/bs512` with four GPUs) has the rates of the profile that names the other batch. If
        nothing is known of a batch size, it is assumed to process as many examples per second as the requested one; if nothing is
        known of a profile, its speed is assumed to be proportional to its GPUs."""
        if not demand.elastic and not self.batches:
            return self.rate(profile, accelerator, gpus, levels)
        key = None if profile is None else at_size(profile, demand, gpus, batch_size)
        if key != profile and not self.knows(key):
            key = profile
        rate, spread = self.rate(key, accelerator, gpus, levels)
        known = self.knows(profile)
        if gpus != demand.width and not known:
            rate, spread = rate * gpus / demand.width, UNPROFILED_UNCERTAINTY
        of_batch = None if profile is None else (profile, self.everywhere or accelerator, gpus, batch_size)
        measured = None if of_batch is None else self.batches.get(of_batch)
        if measured is not None:
            near = self.rate(key, accelerator, gpus)[0]
            rate = measured * self.progress(profile, demand, batch_size) * (rate / near if near > 0 else 1.0)
        elif key != profile:
            rate *= self.progress(profile, demand, batch_size) * self._as_measured(profile, demand, accelerator, key)
        elif wanted := batch_size or examples_of(profile, demand):
            examples = examples_of(profile, demand, gpus if known else 0)
            rate *= examples / wanted * self.progress(profile, demand, batch_size)
            spread = spread if examples == wanted else max(spread, UNPROFILED_UNCERTAINTY)
        return rate, spread

    def _as_measured(self, profile: str | None, demand: Demand, accelerator: str, key: str | None) -> float:
        """Return how many times faster a profile was measured than the source predicts, which gives the rates of its other
        sizes."""
        if self.model is None or profile not in self._profiles or key in self._profiles:
            return 1.0
        asked = f"{model_of(profile)}/global{examples_of(profile, demand)}"
        said = self.model.rate(asked, self.everywhere or accelerator, demand.width)
        measured = self.rate(profile, accelerator, demand.width)[0]
        return measured / said[0] if said is not None and said[0] > 0 and measured > 0 else 1.0

    def progress(self, profile: str | None, demand: Demand, batch_size: int) -> float:
        """Return the training that a step with this batch does, in steps of the requested batch size."""
        if batch_size == demand.batch_size or not demand.batch_size:
            return 1.0
        model = model_of(profile)
        return self.efficiency.progress(model, batch_size) / self.efficiency.progress(model, demand.batch_size)

    def _further(self, profile: str, kind: str, gpus: int, levels: int) -> float:
        """Return how many times slower a gang is across these levels than across the nodes of a rack. Tables end there, so it
        comes from the model."""
        if levels < 2 or self.model is None:
            return 1.0
        near, far = (self.model.rate(profile, kind, gpus, each) for each in (1, levels))
        return max(near[0] / far[0], 1.0) if near is not None and far is not None and far[0] > 0 else 1.0

    def _nearest(
        self, table: Mapping[Key, float], counts: Mapping[tuple[str, str], list[int]], profile: str, accelerator: str, gpus: int
    ) -> tuple[float, float]:
        """Return the measured rate. A GPU count that was not measured is scaled from the nearest smaller one, as the model scales
        the profile, or in proportion to the GPUs if no model knows it."""
        measured = counts[profile, accelerator]
        near = max((n for n in measured if n <= gpus), default=measured[0])
        rate = table[profile, accelerator, near]
        if near == gpus:
            return rate, 0.0
        here = self.model.rate(profile, accelerator, near) if self.model is not None else None
        there = self.model.rate(profile, accelerator, gpus) if self.model is not None else None
        if here is not None and there is not None and here[0] > 0 and there[0] > 0:
            return rate * there[0] / here[0], there[1]
        return rate * gpus / near, UNPROFILED_UNCERTAINTY

    def only_assumed(self, profile: str | None, accelerator: str, gpus: int) -> bool:
        """Return whether the belief about a profile there is an estimate, so that a rate of 0 may be wrong."""
        model = self._learner
        if not profile or profile in self._profiles or model is None:
            return False
        return not model.tried(profile, self.everywhere or accelerator, gpus)

    def measured(self, profile: str | None) -> bool:
        """Return whether a profile was measured. Then its measurements count, and no model."""
        return profile in self._profiles

    def knows(self, profile: str | None) -> bool:
        """Return whether anything is known about a profile, measured or modelled."""
        if profile is None:
            return False
        return profile in self._profiles or (self.model is not None and self.model.rate(profile, REFERENCE, 1) is not None)

    def colocated_rates(self, first: str | None, second: str | None, accelerator: str, gpus: int) -> tuple[float, float] | None:
        """Return the steps per second of two profiles that share the same GPUs of one node, in this order; None if the pair was
        not measured. Two jobs of one profile cannot be distinguished, so each gets the mean of the measurements. Jobs
        without a profile have an empty name in tables."""
        first, second, kind = first or "", second or "", self.everywhere or accelerator
        found = self.pairs.get((first, second, kind, gpus))
        if found is None and (turned := self.pairs.get((second, first, kind, gpus))) is not None:
            found = (turned[1], turned[0])
        if found is not None and first == second:
            found = ((found[0] + found[1]) / 2,) * 2
        return found

    def believed_colocated_rates(
        self, first: str | None, second: str | None, accelerator: str, gpus: int
    ) -> tuple[tuple[float, float], float] | None:
        """Return the estimated rates of two profiles on the same GPUs, with a relative spread: measured, or estimated if the
        model can."""
        known = self.colocated_rates(first, second, accelerator, gpus)
        if known is not None:
            return known, 0.0
        if self._learner is None:
            return None
        found = self._learner.colocated_rates(first or "", second or "", self.everywhere or accelerator, gpus)
        if found is not None and first == second:
            mean = (found[0][0] + found[0][1]) / 2
            return (mean, mean), found[1]
        return found

    def measurement(
        self, profile: str, accelerator: str, gpus: int, rate: float, colocated_with: str = "", levels: int = 0
    ) -> "MeasuredRates | None":
        """Return what a measured rate says; a rate of 0 means that the job stood still. None if these rates cannot use it."""
        kind = self.everywhere or accelerator
        if levels and self.spread_penalty is not None:  # the cost of spreading is known, so this gives the rate in one node
            rate, levels = rate * self.spread_penalty.slowdown(profile, levels), 0
        if levels and rate <= 0:
            rate = NEGLIGIBLE_RATE  # only a measurement in one node can show that the profile does not run at all
        if profile not in self._profiles:
            if self._learner is not None:
                return MeasuredRates(model=self._learner.observed(profile, kind, gpus, rate, colocated_with, levels))
            return None
        if colocated_with:
            turned = (colocated_with, profile, kind, gpus) in self.pairs
            key = (colocated_with, profile, kind, gpus) if turned else (profile, colocated_with, kind, gpus)
            if profile == colocated_with:
                return MeasuredRates(pairs={key: (rate, rate)})
            known = self.pairs.get(key)
            if known is None:
                return None  # without a rate of both, the rate of one says nothing about the other
            return MeasuredRates(pairs={key: (known[0], rate) if turned else (rate, known[1])})
        key_alone = (profile, kind, gpus)
        return MeasuredRates(apart={key_alone: rate}) if levels else MeasuredRates(table={key_alone: rate})

    def goes_by_batch(self, profile: str, demand: Demand, accelerator: str, gpus: int, batch_size: int) -> bool:
        """Return whether the rate at a size comes from measurements at its batch size, or will once it was measured."""
        other = batch_size != (demand.batch_size or 0) or (local_batch(profile) > 0 and gpus != demand.width)
        return other or (profile, self.everywhere or accelerator, gpus, batch_size) in self.batches

    def batch_measurement(
        self, profile: str, demand: Demand, accelerator: str, gpus: int, rate: float, batch_size: int
    ) -> "MeasuredRates":
        """Return what a rate says that was measured in one node, at another batch size than requested. Steps are as in
        `rate_of`."""
        key = (profile, self.everywhere or accelerator, gpus, batch_size)
        return MeasuredRates(batches={key: rate / self.progress(profile, demand, batch_size)})

    def partners(self, profile: str | None, accelerator: str, gpus: int) -> frozenset[str]:
        """Return the profiles that were measured next to this one on the same GPUs."""
        return self._partners.get((profile or "", self.everywhere or accelerator, gpus), frozenset())

    @cached_property
    def _partners(self) -> dict[Key, frozenset[str]]:
        found: dict[Key, frozenset[str]] = {}
        for first, second, accelerator, gpus in self.pairs:
            for one, other in ((first, second), (second, first)):
                key = (one, accelerator, gpus)
                found[key] = found.get(key, frozenset()) | {other}
        return found

    def layout_matters(self, profile: str | None) -> bool:
        """Return whether a gang of this profile may run at another rate when it spans nodes."""
        return profile in self._spread_profiles or bool(profile and self.model is not None and profile not in self._profiles)


@dataclass(frozen=True)
class MeasuredRates:
    """Rates that the scheduler measured itself: a layer over the rates that it was given. The tables are as in `Rates`."""

    table: Mapping[Key, float] = field(default_factory=dict)
    apart: Mapping[Key, float] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str, str, int], tuple[float, float]] = field(default_factory=dict)
    batches: Mapping[tuple[str, str, int, int], float] = field(default_factory=dict)
    model: Source | None = None
    """The model that learned from the measurements; None if none did."""

    def over(self, rates: Rates) -> Rates:
        """Return these rates with the measured ones over them."""
        return replace(
            rates,
            table={**rates.table, **self.table},
            across_nodes={**rates.across_nodes, **self.apart},
            pairs={**rates.pairs, **self.pairs},
            batches={**rates.batches, **self.batches},
            model=self.model if self.model is not None else rates.model,
        )

    def extended(self, later: "MeasuredRates") -> "MeasuredRates":
        """Return these measurements with later ones over them."""
        return MeasuredRates(
            {**self.table, **later.table},
            {**self.apart, **later.apart},
            {**self.pairs, **later.pairs},
            {**self.batches, **later.batches},
            later.model if later.model is not None else self.model,
        )

    @classmethod
    def found_in(cls, rates: Rates, given: Rates) -> "MeasuredRates":
        """Return the layer over the given rates that makes these: all that differs was measured."""

        def differing(believed: Mapping[T, V], known: Mapping[T, V]) -> dict[T, V]:
            return {key: rate for key, rate in believed.items() if known.get(key) != rate}

        return cls(
            differing(rates.table, given.table),
            differing(rates.across_nodes, given.across_nodes),
            differing(rates.pairs, given.pairs),
            differing(rates.batches, given.batches),
            None if rates.model == given.model else rates.model,
        )


def model_of(profile: str | None) -> str:
    """Return the model of a profile: what comes before its batch size; an empty text without a profile."""
    if profile is None:
        return ""
    name, slash, rest = profile.rpartition("/")
    return name if slash and rest.startswith(("global", "bs")) else profile


def local_batch(profile: str | None) -> int:
    """Return the examples on each GPU if a profile names its batch like that (`resnet50/bs64`); 0 otherwise."""
    if profile is None:
        return 0
    _, _, local = profile.rpartition("/bs")
    return int(local) if local != profile and local.isdecimal() else 0


def examples_of(profile: str | None, demand: Demand, gpus: int = 0) -> int:
    """Return the examples in a step at the requested batch size; 0 if unknown. With `gpus`, at the batch size that the profile
    names on this many GPUs."""
    local = local_batch(profile)
    return local * gpus if local and gpus else demand.batch_size or local * demand.width


def at_size(profile: str, demand: Demand, gpus: int, batch_size: int) -> str:
    """Return the profile at another size. It is the profile itself if it does not name its batch size, or if the size is the
    same."""
    asked = examples_of(profile, demand)
    wanted = batch_size or asked
    if local_batch(profile):
        return profile if wanted == examples_of(profile, demand, gpus) else f"{model_of(profile)}/global{wanted}"
    return f"{model_of(profile)}/global{wanted}" if wanted != asked and profile.endswith(f"/global{asked}") else profile


SAME_SPEED = Rates(speeds={})
"""Rates with which all GPUs are alike and make one step per second: a trace's duration is its run time."""


def _counts(table: Mapping[Key, float]) -> dict[tuple[str, str], list[int]]:
    """Return the GPU counts that were measured, by profile and accelerator type."""
    found: dict[tuple[str, str], list[int]] = {}
    for profile, accelerator, gpus in table:
        found.setdefault((profile, accelerator), []).append(gpus)
    return {key: sorted(counts) for key, counts in found.items()}
