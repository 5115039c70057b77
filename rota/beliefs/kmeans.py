"""K-means: k-means++ starts from a given generator, Lloyd's steps, the best of several starts; and the silhouette of a labelling.

Points are rows of an (n, d) array; a plain array of n numbers counts as (n, 1). On a line, points are sorted and clusters are
ranges with running sums, so a step over 16,000 scores is fast.

Why not `scipy.cluster.vq.kmeans2`: from the same starts it ends in other optima, some of them worse. With it, the binned scores
of most draws of GPUs differ, by up to 0.04, so simulated results and those published for PAL would change. It also takes 20 times
as long for 16,000 scores, and its import takes about a second.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rota.errors import OptionError
from rota.model.units import Floats, Ints

STARTS = 10
MAX_STEPS = 300
MAX_CELLS = 4_000_000
"""Largest number of distances in memory at once."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Centres in ascending order (by the first coordinate, then the next), and the nearest centre of each point."""

    centres: Floats
    labels: Ints
    inertia: float
    """Sum of the squared distances to the nearest centres."""


def kmeans(points: npt.ArrayLike, k: int, draw: np.random.Generator, starts: int = STARTS) -> Clusters:
    """Return the best clusters of several starts. No cluster is empty, so fewer distinct points than `k` give fewer clusters."""
    rows = _rows(points)
    if k < 1 or starts < 1:
        raise OptionError("must be at least 1.", field="k" if k < 1 else "starts", value=min(k, starts), hint="give 1 or more")
    if not len(rows):
        raise OptionError("nothing to cluster.", field="points", value=0, hint="give at least one point")
    if not np.isfinite(rows).all():
        raise OptionError("every point must be finite.", field="points", value="nan or inf", hint="leave such points out")
    # The points are moved around zero: far from it, running sums would lose digits that matter.
    middle = np.median(rows, axis=0)
    distinct, spot, counts = np.unique(rows - middle, axis=0, return_inverse=True, return_counts=True)
    k = min(k, len(distinct))
    lloyd = _line if rows.shape[1] == 1 else _space
    best: tuple[float, Floats] | None = None
    for _ in range(starts if 1 < k < len(distinct) else 1):
        centres = lloyd(distinct, counts, _plus_plus(distinct, counts, k, draw))
        inertia = float((_nearest(distinct, centres)[1] * counts).sum())
        # A start is not better if it differs only by rounding.
        if best is None or inertia < best[0] * (1 - 1e-12):
            best = (inertia, centres)
    assert best is not None
    centres = best[1][np.lexsort(best[1].T[::-1])]
    labels, away = _nearest(distinct, centres)
    where = labels[spot.reshape(-1)]
    return Clusters(centres + middle, where, float((away * counts).sum()))


def silhouette(points: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Return the mean over the points of (b - a) / max(a, b), from -1 to 1. a is the mean distance to the other points of its
    cluster, and b the smallest mean distance to another cluster. A point alone in its cluster has 0. Raise if there is only one
    cluster."""
    rows = _rows(points)
    names, own = np.unique(np.asarray(labels).reshape(-1), return_inverse=True)
    if len(own) != len(rows) or len(names) < 2:
        problem = "needs one label per point, and two clusters."
        raise OptionError(problem, field="labels", value=len(names), hint="cluster with k = 2 or more")
    counts = np.bincount(own)
    sums = _line_sums(rows[:, 0], own, len(names)) if rows.shape[1] == 1 else _space_sums(rows, own, len(names))
    every = np.arange(len(rows))
    inside = sums[every, own] / np.maximum(counts[own] - 1, 1)
    means = sums / counts
    means[every, own] = math.inf
    outside = means.min(axis=1)
    larger = np.maximum(inside, outside)
    # Clusters at the same position count as neither near nor far.
    worth = np.divide(outside - inside, larger, out=np.zeros(len(rows)), where=larger > 0)
    return float(np.where(counts[own] > 1, worth, 0.0).mean())


def best_count(points: npt.ArrayLike, most: int, draw: np.random.Generator) -> tuple[int, float]:
    """Return the number of clusters from 2 to `most` with the largest silhouette, and that silhouette. Of two equal ones the
    smaller number is returned; (1, 0) if there are fewer than three distinct points."""
    rows = _rows(points)
    found = (1, 0.0)
    distinct = len(np.unique(rows, axis=0))
    if distinct < 3:
        return found
    for k in range(2, min(most, distinct - 1, len(rows) - 1) + 1):
        value = silhouette(rows, kmeans(rows, k, draw).labels)
        if k == 2 or value > found[1] + 1e-12:
            found = (k, value)
    return found


def _rows(points: npt.ArrayLike) -> Floats:
    array = np.asarray(points, dtype=np.float64)
    return array[:, None] if array.ndim == 1 else array


def _nearest(points: Floats, centres: Floats) -> tuple[Ints, Floats]:
    """Return the nearest centre of every point, the first of several, and the squared distance to it."""
    labels = np.empty(len(points), dtype=np.int64)
    away = np.empty(len(points))
    step = max(1, MAX_CELLS // (len(centres) * points.shape[1]))
    for start in range(0, len(points), step):
        part = slice(start, start + step)
        squares = ((points[part, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        labels[part] = squares.argmin(axis=1)
        away[part] = squares.min(axis=1)
    return labels, away


def _plus_plus(points: Floats, counts: Ints, k: int, draw: np.random.Generator) -> Floats:
    """Return starting centres. Each is drawn by its squared distance to the nearest centre so far; of a few draws, the one that
    leaves the smallest sum of distances is kept."""
    chosen = [int(draw.choice(len(points), p=counts / counts.sum()))]
    away = ((points - points[chosen[0]]) ** 2).sum(axis=1)
    tries = 2 + int(math.log(k))
    while len(chosen) < k:
        rising = np.cumsum(away * counts)
        if rising[-1] <= 0:
            # The points differ by too little for their squares. Any that is not yet a centre will do.
            chosen.append(next(each for each in range(len(points)) if each not in chosen))
            continue
        drawn = np.searchsorted(rising, draw.random(tries) * rising[-1], side="right").clip(max=len(points) - 1)
        left = np.minimum(away, ((points[None, :, :] - points[drawn][:, None, :]) ** 2).sum(axis=2))
        best = int((left * counts).sum(axis=1).argmin())
        chosen.append(int(drawn[best]))
        away = left[best]
    return points[chosen]


def _space(points: Floats, counts: Ints, centres: Floats) -> Floats:
    for _ in range(MAX_STEPS):
        labels, away = _nearest(points, centres)
        held = np.bincount(labels, weights=counts, minlength=len(centres))
        sums = np.stack([np.bincount(labels, weights=column * counts, minlength=len(centres)) for column in points.T], axis=1)
        moved = np.where(held[:, None] > 0, sums / np.maximum(held, 1)[:, None], centres)
        for empty in np.flatnonzero(held == 0):
            # A centre without points moves to the point that is farthest from its own centre.
            moved[empty] = points[int((away * counts).argmax())]
            away[int((away * counts).argmax())] = 0.0
        if np.array_equal(moved, centres):
            break
        centres = moved
    return centres


def _line(points: Floats, counts: Ints, centres: Floats) -> Floats:
    """Do Lloyd's steps on a line, for points in ascending order. A cluster is a range of them."""
    values = points[:, 0]
    held, sums = (np.concatenate(([0.0], np.cumsum(each))) for each in (counts, values * counts))
    now = np.sort(centres[:, 0])
    for _ in range(MAX_STEPS):
        cuts = np.searchsorted(values, (now[1:] + now[:-1]) / 2, side="right")
        edges = np.concatenate(([0], cuts, [len(values)]))
        sizes = held[edges[1:]] - held[edges[:-1]]
        moved = np.where(sizes > 0, (sums[edges[1:]] - sums[edges[:-1]]) / np.maximum(sizes, 1), now)
        for empty in np.flatnonzero(sizes == 0):
            away = np.abs(values[:, None] - moved).min(axis=1) * counts
            moved[empty] = values[int(away.argmax())]
        moved.sort()
        if np.array_equal(moved, now):
            break
        now = moved
    return _exact(values, counts, now)


def _exact(values: Floats, counts: Ints, centres: Floats) -> Floats:
    """Return the means without running sums, whose last digits depend on all points to the left."""
    cuts = np.concatenate(([0], np.searchsorted(values, (centres[1:] + centres[:-1]) / 2, side="right"), [len(values)]))
    means = [
        float(np.average(values[a:b], weights=counts[a:b])) if b > a else float(centre)
        for a, b, centre in zip(cuts[:-1], cuts[1:], centres, strict=True)
    ]
    return np.array(means)[:, None]


def _line_sums(values: Floats, own: Ints, clusters: int) -> Floats:
    """Return the sum of the distances from every point to the points of every cluster."""
    sums = np.empty((len(values), clusters))
    for cluster in range(clusters):
        members = np.sort(values[own == cluster])
        before = np.concatenate(([0.0], np.cumsum(members)))
        below = np.searchsorted(members, values)
        sums[:, cluster] = values * (2 * below - len(members)) + before[-1] - 2 * before[below]
    return np.maximum(sums, 0.0)


def _space_sums(rows: Floats, own: Ints, clusters: int) -> Floats:
    member = np.zeros((len(rows), clusters))
    member[np.arange(len(rows)), own] = 1.0
    sums = np.empty((len(rows), clusters))
    step = max(1, MAX_CELLS // (len(rows) * rows.shape[1]))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        sums[part] = np.sqrt(((rows[part, None, :] - rows[None, :, :]) ** 2).sum(axis=2)) @ member
    return sums
