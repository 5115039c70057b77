"""Variability: how slow each GPU is for each application class. Scores, bins of scores, and what is learned from measured step
times.

A score is a factor on the time of a step: 1.0 is the median GPU, 1.2 takes a fifth longer. A gang waits for its slowest GPU, so
its slowdown is the largest score among its GPUs.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from rota.beliefs.kmeans import best_count, kmeans
from rota.errors import OptionError
from rota.model.units import Floats, Ints

MAX_BINS = 10
"""Largest number of bins, without outliers, for which the silhouette is compared. The smallest is 2."""
PAL_BINS = 2
"""Number of bins, without outliers, that PAL's published code always uses."""
OUTLIER_DEVIATIONS = 3.0
SEED = 1

HALF_LIFE_S = 7 * 86_400.0
"""Time after which a measurement counts half as much, in seconds: cards are repasted, fans fail, drivers change."""
MAX_HALVINGS = 60.0
KEEP_MEASUREMENTS = 9
"""Number of measurements kept for a GPU and class."""
PRIOR_WEIGHT = 2.5
"""Weight of the first belief, in measurements, so that one or two odd runs do not make a slow GPU."""
MIN_PAST = 2.0
"""Minimum weight of all earlier knowledge, in measurements, however old it is. A single measurement never overturns it."""
NOISE = 0.05
"""Relative difference between two runs on the same GPU, if it is unknown."""
UNKNOWN_SPREAD = 0.25
"""Uncertainty assumed for a GPU that was not measured, when the slow GPU of a gang is looked for."""
EQUALLY_SUSPECT = 1.25
"""Members of a slow gang share the blame if their deviation exceeds the smallest one by at most this factor."""
SUSPICION = 0.9
"""Weight of a shared measurement for each suspect while it is a suspect."""
SLOWEST = 1e6

Levels = Literal["pal", "silhouette"]
Measurement = tuple[float, float, float]
"""Time, slowdown, and weight when fresh."""

_BATCH = re.compile(r"\s*\(batch size [^)]*\)\s*$|/(?:bs|global)\d+\s*$", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Variability:
    """Scores of all GPUs of a cluster, by class. A value: `learned` returns another one."""

    classes: tuple[str, ...]
    scores: Floats
    """(classes, gpus): factor on the time of a step; 1.0 is the median, more is slower."""
    uncertainty: Floats
    """(classes, gpus): relative uncertainty of a score; 0 if unknown."""
    class_of: Mapping[str, str] = field(default_factory=dict)
    """Profile or model -> class. Profiles that are not listed are in the first class."""
    recent: Mapping[tuple[int, int], tuple[Measurement, ...]] = field(default_factory=dict)
    """(class, GPU) -> the first belief, then the latest measurements."""
    first_uncertainty: Floats | None = None
    """Uncertainty before anything was learned; None if nothing was learned yet."""

    def __post_init__(self) -> None:
        if not self.classes or len(set(self.classes)) != len(self.classes):
            raise OptionError("must be distinct, one at least.", field="classes", value=self.classes, hint='("A", "B")')
        for name in ("scores", "uncertainty"):
            array = np.array(getattr(self, name), dtype=np.float64)
            if array.ndim != 2 or array.shape != (len(self.classes), np.shape(self.scores)[-1]):
                raise OptionError("must be (classes, gpus).", field=name, value=array.shape, hint="one row per class")
            if not (np.isfinite(array).all() and (array >= 0).all()):
                raise OptionError("must be finite, 0 or more.", field=name, value=float(array.min()), hint="1.0 is the median")
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if not (self.scores > 0).all():
            raise OptionError("must be more than 0.", field="scores", value=float(self.scores.min()), hint="1.0 is the median")
        for profile, name in self.class_of.items():
            if name not in self.classes:
                hint = f"one of {', '.join(self.classes)}"
                raise OptionError(f"no such class, given for {profile}.", field="class_of", value=name, hint=hint)

    def first(self, gpus: int) -> "Variability":
        """Return the scores of the first GPUs only, before anything was learned."""
        return replace(self, scores=self.scores[:, :gpus], uncertainty=self.uncertainty[:, :gpus])

    def grown(self, gpus: int) -> "Variability":
        """Return the scores with this many more GPUs, about which nothing is known."""
        more = np.ones((len(self.classes), gpus))
        spread = np.concatenate((self.uncertainty, more * 0), axis=1)
        first = None if self.first_uncertainty is None else np.concatenate((self.first_uncertainty, more * 0), axis=1)
        return replace(self, scores=np.concatenate((self.scores, more), axis=1), uncertainty=spread, first_uncertainty=first)

    @classmethod
    def alike(cls, gpus: int, classes: tuple[str, ...] = ("A",), class_of: Mapping[str, str] | None = None) -> "Variability":
        """Return scores with which all GPUs are as good as the median; a start for learning."""
        return cls(classes, np.ones((len(classes), gpus)), np.zeros((len(classes), gpus)), class_of or {})

    @property
    def gpus(self) -> int:
        return int(self.scores.shape[1])

    def row(self, profile: str | None) -> int:
        """Return the class of a profile, as a row of `scores`. A name that is not listed exactly is compared in its plain form
        (`plain_name`); if that is not listed either, the class is the first. So it is without a profile."""
        if profile is None:
            return 0
        name = self.class_of.get(profile) or self._plain.get(plain_name(profile))
        return self._place[name] if name is not None else 0

    def slowdown(self, profile: str | None, gpus: Sequence[int] | Ints) -> float:
        """Return how many times longer a step takes on these GPUs than on median ones: the largest score, including suspicion;
        1.0 for no GPUs."""
        return float(self.feared[self.row(profile), gpus].max()) if len(gpus) else 1.0

    @cached_property
    def feared(self) -> Floats:
        """Scores including suspicion. A GPU that may be the reason for slow gangs counts as slower, the more so the larger its
        share of the blame, until a gang with it is fast. It is better to avoid three good GPUs than to use the slow one; and
        avoiding some of them changes the gangs, which gives more information."""
        if not any(weight < 1.0 for kept in self.recent.values() for _, _, weight in kept[1:]):
            return self.scores
        found = self.scores.copy()
        for (row, gpu), kept in self.recent.items():
            blame = min(sum(weight for _, _, weight in kept[1:] if weight < 1.0), 1.0)
            if blame:
                worst = _weighted_median([(when, value, SUSPICION if weight < 1.0 else weight) for when, value, weight in kept])
                found[row, gpu] += max(worst - found[row, gpu], 0.0) * blame
        found.setflags(write=False)
        return found

    def bins(self, levels: Levels = "pal") -> Floats:
        """Return scores rounded to few levels, so that similar GPUs count as equally good: for every class the centre of the
        GPU's bin divided by the median of the centres.

        Outliers are scores more than three sample standard deviations above the mean. The number of bins is the number of
        outliers plus two (`pal`, as in PAL's published code) or plus the number with the best silhouette of the other scores
        (`silhouette`, as described in the paper).
        """
        if levels not in ("pal", "silhouette"):
            raise OptionError("is not a method of binning.", field="levels", value=levels, hint="pal or silhouette")
        return self._bins_pal if levels == "pal" else self._bins_silhouette

    def outliers(self, threshold: float) -> list[tuple[int, str, float]]:
        """Return (GPU, class, score) of every score above a threshold, the slowest first."""
        found = [(int(g), self.classes[c], float(self.scores[c, g])) for c, g in np.argwhere(self.scores > threshold)]
        return sorted(found, key=lambda each: (-each[2], each[0], each[1]))

    def learned(self, profile_or_class: str, gpus: Sequence[int] | Ints, slowdown: float, now_s: float) -> "Variability":
        """Return the belief after a step took `slowdown` times as long on these GPUs as on median ones in the same place, with
        the same batch and partners.

        The slowdown of a gang is that of its slowest GPU only:

        - no member is slower than the gang, so each member with at least this score is now measured with this slowdown;
        - if there is none, one of the members is to blame: most likely one whose belief is near or uncertain, or one of many slow
          gangs. It is measured with this slowdown. If n members are about as likely, each keeps 1/n of the measurement and a
          larger spread, but no score moves: as long as a gang stays together, the slow GPU in it is unknown, and the next gang
          with other members will show it. Until then all of them are suspects (`feared`);
        - about the others it says nothing, and a member of a fast gang is no longer a suspect.

        The belief is the weighted median of the first belief and the latest measurements; older ones weigh less. It moves towards
        a measurement or stays where it is, never away, so a slower measurement never makes a GPU look faster.
        """
        return self.learned_all([(profile_or_class, gpus, slowdown)], now_s)

    def learned_all(
        self,
        measured: Iterable[tuple[str | None, Sequence[int] | Ints, float]],
        now_s: float,
        cleared: Iterable[tuple[str | None, Sequence[int] | Ints, float]] = (),
    ) -> "Variability":
        """Return the belief after many measurements of one instant, each as (profile or class, GPUs, slowdown), in the given
        order. GPUs in `cleared` are known not to be slower than this, and nothing more is learned about them."""
        draft = _Draft(self)
        for name, gpus, limit in cleared:
            row = -1 if name is None else self._place.get(name, -1)
            draft.clear(row if row >= 0 else self.row(name), np.asarray(gpus, dtype=np.int64), limit)
        for name, gpus, slowdown in measured:
            if not (math.isfinite(slowdown) and 0 < slowdown <= SLOWEST):
                raise OptionError(
                    f"must be more than 0 and at most {SLOWEST:.0e}.", field="slowdown", value=slowdown, hint="1.0 is the median"
                )
            members = np.unique(np.asarray(gpus, dtype=np.int64))
            if len(members) and not (members[0] >= 0 and members[-1] < self.gpus):
                raise OptionError(
                    f"there are GPUs 0 to {self.gpus - 1}.", field="gpus", value=members.tolist(), hint="name others"
                )
            row = -1 if name is None else self._place.get(name, -1)
            draft.learn(row if row >= 0 else self.row(name), members, slowdown, now_s)
        return draft.done()

    @cached_property
    def _place(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.classes)}

    @cached_property
    def _plain(self) -> dict[str, str]:
        """Plain name -> class. If two listed names have the same plain name, the first counts."""
        found: dict[str, str] = {}
        for profile, name in self.class_of.items():
            found.setdefault(plain_name(profile), name)
        return found

    @cached_property
    def _bins_pal(self) -> Floats:
        return _frozen(_binned(scores, by_silhouette=False) for scores in self.feared)

    @cached_property
    def _bins_silhouette(self) -> Floats:
        return _frozen(_binned(scores, by_silhouette=True) for scores in self.feared)


class _Draft:
    """Beliefs while they are being changed."""

    def __init__(self, before: Variability) -> None:
        self._before = before
        self._first = before.uncertainty if before.first_uncertainty is None else before.first_uncertainty
        self._scores, self._spread, self._recent = before.scores.copy(), before.uncertainty.copy(), dict(before.recent)
        self._changed = False

    def done(self) -> Variability:
        if not self._changed:
            return self._before
        return replace(
            self._before, scores=self._scores, uncertainty=self._spread, recent=self._recent, first_uncertainty=self._first
        )

    def learn(self, row: int, members: Ints, slowdown: float, now_s: float) -> None:
        self.clear(row, members, slowdown)
        blamed, share = self._blamed(row, members, slowdown)
        for gpu in blamed.tolist():
            self._changed = True
            now = float(self._scores[row, gpu])
            past = self._recent.get((row, gpu)) or ((now_s, now, PRIOR_WEIGHT),)
            prior, *latest = (*past, (now_s, slowdown, share))
            kept = (prior, *latest[-KEEP_MEASUREMENTS:])
            low, high = min(now, slowdown), max(now, slowdown)
            self._recent[row, gpu] = kept
            if share == 1.0:
                self._scores[row, gpu] = min(max(_weighted_median(kept), low), high)
            self._spread[row, gpu] = _spread(kept, float(self._scores[row, gpu]), float(self._first[row, gpu]))

    def clear(self, row: int, members: Ints, slowdown: float) -> None:
        """Remove suspicions of members that come from slower measurements: no member is slower than the gang, so another GPU
        caused them."""
        limit = slowdown * (1 + NOISE)
        for gpu in members.tolist():
            kept = self._recent.get((row, gpu))
            if kept is not None and any(weight < 1.0 and value > limit for _, value, weight in kept[1:]):
                self._recent[row, gpu] = (kept[0], *(each for each in kept[1:] if each[2] == 1.0 or each[1] <= limit))
                self._changed = True

    def _blamed(self, row: int, members: Ints, slowdown: float) -> tuple[Ints, float]:
        """Return the members to which a measurement applies, and its weight for each."""
        if len(members) < 2:
            return members, 1.0
        believed = self._scores[row, members]
        if (believed >= slowdown).any():
            return members[believed >= slowdown], 1.0
        spread = self._spread[row, members]
        deviations = (slowdown - believed) / (believed * np.where(spread > 0, spread, UNKNOWN_SPREAD))
        # A member that was in slow gangs before is the likelier one: gangs change, and the slow GPU is in all of them.
        blamed = np.array([self._times_blamed(row, gpu, slowdown) for gpu in members.tolist()])
        deviations /= 1.0 + blamed
        suspects = members[deviations <= deviations.min() * EQUALLY_SUSPECT]
        return suspects, 1.0 / len(suspects)

    def _times_blamed(self, row: int, gpu: int, slowdown: float) -> int:
        """Count the measurements of a GPU that are nearer to this slowdown than to its score."""
        halfway = (float(self._scores[row, gpu]) + slowdown) / 2
        return sum(value > halfway for _, value, _ in self._recent.get((row, gpu), ())[1:])


@lru_cache(maxsize=10_000)
def plain_name(profile: str) -> str:
    """Return a model's name without what varies between sources: the batch at its end (`(batch size 64)`, `/bs64`, `/global256`),
    everything before its last slash (`pal/`), capitals, and all signs that are neither letters nor digits. `ResNet-50 (batch size
    64)` is `resnet50`, and so are `pal/resnet50` and `ResNet50/bs32`."""
    model = _BATCH.sub("", profile).rsplit("/", 1)[-1]
    return "".join(sign for sign in model.lower() if sign.isalnum())


def _binned(scores: Floats, *, by_silhouette: bool) -> Floats:
    if not len(scores):
        return scores
    limit = scores.mean() + OUTLIER_DEVIATIONS * scores.std(ddof=1) if len(scores) > 1 else math.inf
    apart = scores > limit
    draw = np.random.Generator(np.random.Philox(key=SEED))
    usual = max(best_count(scores[~apart], MAX_BINS, draw)[0], 1) if by_silhouette else PAL_BINS
    found = kmeans(scores, usual + int(apart.sum()), draw)
    centres = found.centres[:, 0]
    return (centres / np.median(centres))[found.labels]


def _weighted_median(kept: Sequence[Measurement]) -> float:
    """Return the smallest value that half of the weight does not exceed."""
    newest_s = max(when for when, _, _ in kept)
    # The limit keeps very old measurements from vanishing altogether.
    weights = [weight * 0.5 ** min((newest_s - when) / HALF_LIFE_S, MAX_HALVINGS) for when, _, weight in kept]
    past = sum(weights[:-1])
    weights = [weight * max(1.0, MIN_PAST / past) for weight in weights[:-1]] + weights[-1:]
    order = sorted(range(len(kept)), key=lambda each: kept[each][1])
    half, passed = sum(weights) / 2, 0.0
    for each in order:
        passed += weights[each]
        if passed >= half:
            return kept[each][1]
    return kept[order[-1]][1]


def _spread(kept: Sequence[Measurement], score: float, first: float) -> float:
    """Return the uncertainty of a score: the deviation of the measurements from it, at least the usual noise, divided by the root
    of their number; less if the first belief agrees with them."""
    prior, latest = kept[0], kept[1:]
    deviations = sorted(abs(value - score) / score for _, value, _ in latest)
    typical = max(1.4826 * deviations[len(deviations) // 2], NOISE)
    certainty = sum(weight for _, _, weight in latest) / typical**2
    if first > 0 and abs(prior[1] - score) <= 3 * first * score:
        certainty += 1 / first**2
    return 1 / math.sqrt(certainty)


def _frozen(rows: Iterable[Floats]) -> Floats:
    array = np.stack(list(rows))
    array.setflags(write=False)
    return array
