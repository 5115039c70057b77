"""Conclusions from the experiments of Tiresias: claims, and a section of the page for each setting."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rota.papers.bars import Bar, bars
from rota.papers.claims import Claim, claim, mean
from rota.papers.experiment import CellResult, Experiment
from rota.papers.paper_page import Section
from rota.papers.tiresias_experiments import FIFO, GANDIVA, PENALTY, SRSF, SRTF, TIRESIAS_G, TIRESIAS_L, YARN

JCT = "mean_jct_seconds"
QUEUEING = ("mean_queueing_seconds", "median_queueing_seconds", "p95_queueing_seconds")
RECALLED: Mapping[str, tuple[float, float, float]] = {
    YARN: (8146, 7464, 15327),
    SRTF: (593, 32, 3133),
    TIRESIAS_G: (1005, 39, 7933),
    TIRESIAS_L: (963, 13, 7755),
}
"""Mean, median and 95th percentile of queueing on the testbed, in seconds. Recalled, not verified against the paper's text."""
UNVERIFIED = "Not judged: the published figures are recalled, not verified against the paper's text."

TABLE = {
    "mean JCT": JCT,
    "median": "median_jct_seconds",
    "p95": "p95_jct_seconds",
    "makespan": "makespan_seconds",
    "mean queueing": QUEUEING[0],
}

Figures = Mapping[str, Sequence[float]]
"""Contender -> one value for each seed that every contender has."""


def by_seed(results: Sequence[CellResult], setting: str, figure: str = JCT) -> Figures:
    """Return contender -> one figure by seed. Seeds without a figure for every contender are left out."""
    known: dict[str, dict[float, float]] = {}
    for result in results:
        if result.cell.experiment == setting:
            mine = known.setdefault(result.cell.label, {})
            value = result.figures.get(figure)
            if value is not None:
                mine[result.cell.x] = float(value)
    common = set.intersection(*(set(each) for each in known.values())) if known else set()
    return {label: [each[seed] for seed in sorted(common)] for label, each in known.items() if common}


def times(found: Figures, more: str, less: str) -> list[float]:
    """Return the ratio of two contenders for each seed; empty if one of them was not run."""
    if more not in found or less not in found:
        return []
    return [one / other for one, other in zip(found[more], found[less], strict=True) if other > 0]


def ratio(name: str, paper: float, found: Figures, more: str, less: str, note: str, *, below: bool = False) -> Claim:
    each = times(found, more, less)
    if not each:
        return claim(name, paper=paper, measured=None, note=f"{more} and {less} have no run in common that ended.")
    seeds = f"Mean of {len(each)} seeds, from {min(each):.3g}x to {max(each):.3g}x. " if len(each) > 1 else ""
    return claim(name, paper=paper, measured=mean(each), note=seeds + note, below=below)


def _problems(results: Sequence[CellResult], setting: str) -> list[str]:
    return [
        f"{result.cell.label}, seed {result.cell.x:g}: {result.error}"
        for result in results
        if result.cell.experiment == setting and result.error
    ]


def _rows(results: Sequence[CellResult], setting: str) -> tuple[list[str], list[list[str]]]:
    columns = [by_seed(results, setting, figure) for figure in TABLE.values()]
    stops = by_seed(results, setting, "suspensions")
    rows = []
    for label in columns[0]:
        rows.append([label, *(f"{mean(each[label]):,.0f} s" for each in columns), f"{mean(stops[label]):,.0f}"])
    return ["contender", *TABLE, "suspensions"], rows


def _picture(results: Sequence[CellResult], setting: str, subtitle: str) -> list[Bar]:
    return [
        Bar(label=label, value=mean(values), low=min(values), high=max(values), note=f"{mean(values):,.0f} s")
        for label, values in by_seed(results, setting).items()
    ]


def _section(results: Sequence[CellResult], setting: str, *, key: str, title: str, lead: str) -> Section:
    heads, rows = _rows(results, setting)
    drawn = _picture(results, setting, title)
    subtitle = "Mean over seeds; the thin line shows the smallest and the largest"
    return Section(
        key=key,
        title=title,
        lead=lead,
        plots=[bars(f"Mean JCT: {title.lower()}", subtitle, [("", drawn)])] if drawn else [],
        heads=heads,
        rows=rows,
        problems=_problems(results, setting),
    )


def _testbed(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    found = by_seed(results, "resumed")
    other = times(found, YARN, TIRESIAS_G)
    free = times(by_seed(results, "free"), YARN, TIRESIAS_L)
    beside = f" {mean(free):.3g}x here if nothing costs anything." if free else ""
    beside += f" With the Gittins index {mean(other):.3g}x." if other else ""
    claims = [
        ratio(
            "Mean JCT, Tiresias against YARN-CS",
            5.5,
            found,
            YARN,
            TIRESIAS_L,
            f"Published as up to. 4.9x in the simulator of the authors.{beside}",
        )
    ]
    return claims, _section(
        results,
        "resumed",
        key="testbed",
        title="With the costs of the testbed",
        lead="Models that are mostly one tensor (VGG, AlexNet) run at 0.6 of their speed across nodes if they would fit on one, "
        "and suspending and resuming a job costs half a minute. YARN-CS is first come, first served, and waits for whole nodes; "
        "FIFO counts only GPUs. SRTF and SRSF know every run time. Tiresias knows none.",
    )


def _authors(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    found = by_seed(results, "free")
    of = by_seed(results, "resumed")
    costs = times(of, TIRESIAS_L, SRTF)
    beside = f" With the costs of the testbed {mean(costs):.3g}x." if costs else ""
    claims = [
        ratio(
            "Mean JCT, Tiresias against perfect knowledge (SRTF)",
            1.4,
            found,
            TIRESIAS_L,
            SRTF,
            f"Less is better. The abstract says comparable; 1.40x is from the simulator of the authors.{beside}",
            below=True,
        ),
        ratio(
            "Mean JCT, Tiresias against Gandiva",
            2.0,
            found,
            GANDIVA,
            TIRESIAS_L,
            "2.2x in the simulator of the authors. Jobs take turns of a minute and do not share GPUs.",
        ),
    ]
    return claims, _section(
        results,
        "free",
        key="authors",
        title="As the authors simulate",
        lead="Placement and preemption are free, as in the simulator published with the paper. Its mean JCTs for 480 jobs of the "
        f"same shape were: {YARN} 7,391 s, {FIFO} 6,820 s, {SRTF} 1,078 s, {SRSF} 1,042 s, "
        f"{GANDIVA} 3,325 s, {TIRESIAS_L} 1,491 s and {TIRESIAS_G} 1,540 s, with two queues and 3,200 GPU-seconds between them.",
    )


def _queueing(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    found = {figure: by_seed(results, "resumed", figure) for figure in QUEUEING}
    claims = []
    for name, place in (("Mean", 0), ("95th percentile of", 2)):
        paper = RECALLED[YARN][place] / RECALLED[TIRESIAS_L][place]
        measured = ratio(
            f"{name} queueing, Tiresias against YARN-CS", round(paper, 2), found[QUEUEING[place]], YARN, TIRESIAS_L, UNVERIFIED
        )
        claims.append(replace(measured, holds=None))  # it may never have been claimed
    rows = []
    for label, published in RECALLED.items():
        mine = [found[figure].get(label) for figure in QUEUEING]
        if all(mine):
            rows.append([label, *(f"{value:,.0f} s" for value in published), *(f"{mean(each or [0.0]):,.0f} s" for each in mine)])
    return claims, Section(
        key="queueing",
        title="Queueing",
        lead="Time for which a job has no GPUs: its JCT minus the time with GPUs. The figures are means over seeds of the mean, "
        f"the median and the 95th percentile of each seed. {UNVERIFIED}",
        heads=["contender", "mean, testbed", "median, testbed", "p95, testbed", "mean, here", "median, here", "p95, here"],
        rows=rows,
    )


def _placement(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    found = by_seed(results, "placed")
    findings = []
    for base in (TIRESIAS_L, TIRESIAS_G):
        for how in ("packed", "spread", "random"):
            each = times(found, f"{base}, {how}", base)
            if each:
                findings.append(f"{base} with {how} placement: {mean(each):.2f} times its mean JCT with placement by skew.")
    return [], replace(
        _section(
            results,
            "placed",
            key="placement",
            title="Effect of placement",
            lead=f"Only placement costs something: VGG and AlexNet are {PENALTY:.2f} times slower across nodes if they would fit "
            "on one; wider jobs and other models are not slower. By skew, Tiresias keeps VGG and AlexNet together, waits if "
            "that is not possible, and gives the other jobs what is left. Packed keeps all jobs together where it can and "
            "does not wait.",
        ),
        found=findings,
    )


EXPERIMENTS: Sequence[Experiment] = (_testbed, _authors, _queueing, _placement)
