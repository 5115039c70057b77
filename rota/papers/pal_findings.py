"""Conclusions from the experiments of PAL: claims, and a section of the page for each experiment."""

from collections.abc import Mapping, Sequence
from statistics import median

from rota.papers.bars import Bar, bars
from rota.papers.claims import Claim, claim, geomean, mean, unjudged
from rota.papers.experiment import CellResult, Experiment
from rota.papers.pal_experiments import COSTS, OURS, PACKED, PAL, PM_FIRST, SEED
from rota.papers.paper_page import Section
from rota.report.plots import Plot, Series, chart

JCT, MAKESPAN = "mean_jct_seconds", "makespan_seconds"
NAMES: Mapping[str, str] = {PAL: "PAL", PM_FIRST: "PM-First"}

Ratios = Mapping[str, float]
"""Workload -> ratio of a figure to that of sticky packed placement."""


def ratios(results: Sequence[CellResult], experiment: str, placer: str, figure: str = JCT, *, at: float = 0.0) -> Ratios:
    """Return the ratios at one x of an experiment. Workloads without one of the two figures are left out."""
    known: dict[tuple[str, str], float] = {}
    for result in results:
        cell, value = result.cell, result.figures.get(figure)
        if cell.experiment == experiment and cell.x == at and value:
            known[cell.label, cell.group] = value
    mine = [group for label, group in known if label == placer and (PACKED, group) in known]
    return {group: known[placer, group] / known[PACKED, group] for group in mine}


def gain(found: Ratios) -> float | None:
    """Return the gain over all workloads, in per cent."""
    middle = geomean(list(found.values()))
    return 100 * (1 - middle) if middle is not None else None


def format_percent(value: float | None) -> str:
    return "-" if value is None else f"{round(value, 1) + 0.0:.1f}%"


def _problems(results: Sequence[CellResult], experiment: str) -> list[str]:
    return [
        f"{result.cell.label} under {result.cell.study.policy}, {result.cell.group}, at {result.cell.x:g}: {result.error}"
        for result in results
        if result.cell.experiment.startswith(experiment) and result.error
    ]


def _values(results: Sequence[CellResult], experiment: str) -> list[float]:
    """Return the values of x in an experiment."""
    return sorted({result.cell.x for result in results if result.cell.experiment == experiment})


def _labels(results: Sequence[CellResult], experiment: str) -> list[str]:
    return list(dict.fromkeys(result.cell.label for result in results if result.cell.experiment == experiment))


def _groups(results: Sequence[CellResult], experiment: str) -> list[str]:
    return list(dict.fromkeys(result.cell.group for result in results if result.cell.experiment == experiment))


# The placements ------------------------------------------------------------------------------------------------------


def _placements(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    experiment = "placements"
    policies = list(dict.fromkeys((o.cell.x, str(o.cell.study.policy)) for o in results if o.cell.experiment == experiment))
    rows, drawn = [], []
    groups = _groups(results, experiment)
    for at, policy in policies:
        group = []
        for placer in _labels(results, experiment):
            jct, makespan = ratios(results, experiment, placer, at=at), ratios(results, experiment, placer, MAKESPAN, at=at)
            if not jct:
                continue
            each = [format_percent(gain({name: jct[name]})) if name in jct else "-" for name in groups]
            rows.append([f"{policy}+{placer}", format_percent(gain(jct)), *each, format_percent(gain(makespan))])
            middle = geomean(list(jct.values())) or 0.0
            low, high = min(jct.values()), max(jct.values())
            group.append(Bar(label=placer, value=100 * middle, low=100 * low, high=100 * high, note=f"{100 * middle:.0f}%"))
        drawn.append((f"under {policy}", group))
    fifo = next((at for at, policy in policies if policy == "fifo"), 0.0)
    pictures = [
        bars(
            "Mean JCT of each placement, relative to sticky packed",
            f"Geometric mean over {len(groups)} workloads; the thin line shows the smallest and the largest",
            drawn,
            mark=(100.0, "sticky packed"),
        )
    ]
    return _headline(results, fifo, {policy: at for at, policy in policies}), Section(
        key=experiment,
        title="Placements",
        lead="Seven placements of the same jobs under three orders of the queue. PAL and PM-First know how slow each GPU is "
        "for each class of application; packed and random do not. Sticky: a running job keeps its GPUs; otherwise all jobs "
        "are placed again in each round. PAL treats jobs wider than a node like PM-First (wide=false); ours (pal) gives "
        "them few nodes.",
        plots=pictures if any(group for _, group in drawn) else [],
        heads=["order+placement", "mean JCT saved", *groups, "makespan saved"],
        rows=rows,
        problems=_problems(results, experiment),
    )


def _headline(results: Sequence[CellResult], fifo: float, policies: Mapping[str, float]) -> list[Claim]:
    claims = []
    workloads = ratios(results, "placements", PAL, at=fifo)
    over = f"{len(workloads)} workload{'' if len(workloads) == 1 else 's'} (the paper has 8)"
    others = ", ".join(
        f"under {policy} {format_percent(gain(ratios(results, 'placements', PAL, at=at)))}"
        for policy, at in policies.items()
        if at != fifo
    )
    published = {PAL: (43.0, 21.0, 59.0), PM_FIRST: (40.0, 5.0, 59.0)}
    for placer, (usual, least, most) in published.items():
        found = ratios(results, "placements", placer, at=fifo)
        gains = [100 * (1 - ratio) for ratio in found.values()]
        beside = f" The abstract says 42%. Here {others}." if placer == PAL and others else ""
        claims += [
            _saved(f"Mean JCT, {NAMES[placer]}", usual, gain(found), f"Under FIFO, geometric mean over {over}.{beside}"),
            _saved(
                f"Mean JCT, {NAMES[placer]}, worst workload",
                least,
                min(gains, default=None),
                f"Under FIFO, {_which(found, max(found.values(), default=None))} of {over}.",
            ),
            _saved(
                f"Mean JCT, {NAMES[placer]}, best workload",
                most,
                max(gains, default=None),
                f"Under FIFO, {_which(found, min(found.values(), default=None))} of {over}.",
            ),
        ]
    spans = gain(ratios(results, "placements", PAL, MAKESPAN, at=fifo))
    claims.append(
        _saved("Makespan, PAL", 47.0, spans, f"Under FIFO, geometric mean over {over}; the abstract does not say under what.")
    )
    return claims


def _saved(name: str, paper: float, measured: float | None, note: str) -> Claim:
    if measured is None:
        return claim(
            name, paper=paper, measured=None, unit="%", note="It and sticky packed have no workload in common that ended."
        )
    return claim(name, paper=paper, measured=measured, unit="%", note=note)


def _which(found: Ratios, ratio: float | None) -> str:
    """Return the workload with this ratio."""
    return next((name for name, each in found.items() if each == ratio), "no workload")


# Utilisation ---------------------------------------------------------------------------------------------------------


def _utilization(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    experiment = "placements"
    fifo = next((o.cell.x for o in results if o.cell.experiment == experiment and o.cell.study.policy == "fifo"), 0.0)
    rows, means = [], {}
    for placer in _labels(results, experiment):
        mine = [
            o.figures for o in results if (o.cell.experiment, o.cell.label, o.cell.x) == (experiment, placer, fifo) and o.figures
        ]
        taken = [figures["utilization"] for figures in mine if figures.get("utilization")]
        useful = [figures["useful_share"] for figures in mine if figures.get("useful_share")]
        if taken and useful:
            means[placer] = (mean(taken), mean(useful))
            rows.append([placer, f"{mean(taken):.2f}", f"{mean(useful):.2f}"])
    name = "Utilisation, PAL"
    if PAL not in means or PACKED not in means:
        claims = [unjudged(name, paper=28.0, measured=None, unit="%", note="PAL or sticky packed has no run that ended.")]
    else:
        more = [100 * (mine / base - 1) for mine, base in zip(means[PAL], means[PACKED], strict=True)]
        note = (
            "Not judged: the material that we have does not define the published utilization. The share of GPU time that is "
            f"occupied goes from {means[PACKED][0]:.2f} to {means[PAL][0]:.2f} (measured here). The share that would be enough "
            f"for the same work on median GPUs goes from {means[PACKED][1]:.2f} to {means[PAL][1]:.2f}, {more[1]:+.0f}%, "
            "because the makespan is shorter."
        )
        claims = [unjudged(name, paper=28.0, measured=more[0], unit="%", note=note)]
    return claims, Section(
        key="utilization",
        title="Utilisation",
        lead="Two shares of all GPU time until the last job ends, under FIFO, means over the workloads. Occupied: a job holds "
        "the GPU, however slow it is. Useful: the time that the jobs would need on median GPUs of one node. A good placement "
        "needs less time for the same work, so the first may stay while the second grows.",
        heads=["placement", "occupied", "useful"],
        rows=rows,
    )


# Locality ------------------------------------------------------------------------------------------------------------


def _locality(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    experiment = "locality"
    gains = _gains_by(results, experiment)
    ends = {placer: (curve.get(1.0), curve.get(3.0)) for placer, curve in gains.items()}
    first, last = ends.get(PAL, (None, None))
    other = ends.get(PM_FIRST, (None, None))[1]
    flat = (
        "Published, the gain falls as locality matters more: PAL from 30% to 20%, PM-First from 30% to 9%. Here PAL goes "
        f"from {format_percent(first)} to {format_percent(last)} and PM-First "
        f"from {format_percent(ends.get(PM_FIRST, (None, None))[0])} to {format_percent(other)}: "
        "most of it is time not spent on a slow GPU, and that does not depend on the penalty."
    )
    ahead = last - other if last is not None and other is not None else None
    claims = [
        _saved("Mean JCT, PAL, penalty 1.0", 30.0, first, "Under FIFO."),
        _saved("Mean JCT, PAL, penalty 3.0", 20.0, last, f"Under FIFO. {flat}"),
        claim(
            "PAL ahead of PM-First, penalty 3.0", paper=11.0, measured=ahead, unit="points", note="Of mean JCT saved, under FIFO."
        ),
    ]
    return claims, Section(
        key=experiment,
        title="Locality",
        lead="Slowdown of a gang across nodes, as a factor from 1 to 3. More than half of these jobs are wider than a node and "
        "always have it; for the others it depends on the placement.",
        plots=_relative(gains, "Mean JCT against the penalty for spanning nodes", "spread penalty"),
        heads=["spread penalty", *(f"{x:g}" for x in _values(results, experiment))],
        rows=[[placer, *(format_percent(curve.get(x)) for x in _values(results, experiment))] for placer, curve in gains.items()],
        problems=_problems(results, experiment),
    )


def _gains_by(results: Sequence[CellResult], experiment: str) -> dict[str, dict[float, float]]:
    """Return the gains of PAL and PM-First, by x."""
    found: dict[str, dict[float, float]] = {}
    for placer in (PAL, PM_FIRST):
        curve = {x: gain(ratios(results, experiment, placer, at=x)) for x in _values(results, experiment)}
        found[placer] = {x: value for x, value in curve.items() if value is not None}
    return found


def _relative(gains: Mapping[str, Mapping[float, float]], title: str, x_title: str) -> list[Plot]:
    """Draw gains as the remaining per cent, which are never below 0."""
    series = [
        Series(label=label, x=list(curve), y=[100 - value for value in curve.values()]) for label, curve in gains.items() if curve
    ]
    at = sorted({x for curve in gains.values() for x in curve})
    if not series:
        return []
    base = Series(label=PACKED, x=at, y=[100.0] * len(at))
    subtitle = "Under FIFO, geometric mean over the workloads; lower is better"
    return [chart(title, subtitle, [*series, base], x_title=x_title, y_title="mean JCT, % of sticky packed")]


# Draws of the same GPUs ----------------------------------------------------------------------------------------------


def _seeds(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    drawn, medians = _gains_by(results, "seeds"), _gains_by(results, "medians")
    named = {
        **{f"{NAMES[placer]}, a run for each GPU": curve for placer, curve in drawn.items()},
        **{f"{NAMES[placer]}, each GPU's median": curve for placer, curve in medians.items()},
    }
    at = _values(results, "seeds")
    findings = []
    one, other = list(drawn[PAL].values()), list(medians[PAL].values())
    if one and other:
        findings = [
            f"With one run drawn for each GPU, PAL saves {format_percent(min(one))} to {format_percent(max(one))} of mean JCT, "
            f"depending on the draw alone; with the median of each GPU's runs {format_percent(min(other))} "
            f"to {format_percent(max(other))}.",
            "The two differ in the meaning of a score. In the file one or two runs in a hundred took far longer than the median, "
            "on GPUs whose other runs were normal. Drawing a run turns such an accident into a property of a GPU for the whole "
            "simulation: sticky packed keeps jobs on it for days, and a placement that avoids it looks good. A draw without such "
            "a run leaves little to gain.",
        ]
    return [], Section(
        key="seeds",
        title="Draws of GPUs",
        lead=f"The same jobs and files of runs with other random draws; the paper has seed {SEED}. Under FIFO.",
        found=findings,
        plots=_relative(named, "Mean JCT by the draw", "seed of the draw"),
        heads=["mean JCT saved, by seed", *(f"{x:g}" for x in at)],
        rows=[[label, *(format_percent(curve.get(x)) for x in at)] for label, curve in named.items()],
        problems=[*_problems(results, "seeds"), *_problems(results, "medians")],
    )


# Other machines ------------------------------------------------------------------------------------------------------


def _machines(results: Sequence[CellResult]) -> tuple[list[Claim], Section | None]:
    experiments = list(dict.fromkeys(o.cell.experiment for o in results if o.cell.experiment.startswith("machine ")))
    if not experiments:
        return [], None
    rows = []
    for experiment in experiments:
        for x in _values(results, experiment):
            saved = [format_percent(gain(ratios(results, experiment, placer, at=x))) for placer in (PAL, PM_FIRST)]
            rows.append([f"{experiment.removeprefix('machine ')}, seed {x:g}", *saved])
    return [], Section(
        key="machines",
        title="Other machines",
        lead="GPUs drawn from runs on other machines. At Lonestar6 only class A was measured, so the other classes are those of "
        "Longhorn. At Lonestar6 some GPUs are really slow: six of 219 take more than twice the median, with one run each. "
        "Under FIFO.",
        heads=["machine", "PAL saves", "PM-First saves"],
        rows=rows,
        problems=_problems(results, "machine "),
    )


# Moves with a cost ---------------------------------------------------------------------------------------------------


def _moves(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    experiment = "moves"
    rows, drawn = [], []
    for placer in _labels(results, experiment):
        jct = ratios(results, experiment, placer)
        if not jct:
            continue
        mine = [o.figures for o in results if o.cell.experiment == experiment and o.cell.label == placer and o.figures]
        migrations = mean([figures["migrations"] for figures in mine])
        middle = 100 * (geomean(list(jct.values())) or 0.0)
        low, high = 100 * min(jct.values()), 100 * max(jct.values())
        drawn.append(Bar(label=placer, value=middle, low=low, high=high, note=f"{middle:.0f}%, {migrations:,.0f} moves"))
        rows.append(
            [
                placer,
                format_percent(gain(jct)),
                format_percent(gain(ratios(results, experiment, placer, MAKESPAN))),
                f"{migrations:,.0f}",
            ]
        )
    costs = ", ".join(f"{name.removesuffix('_seconds')} {seconds:g} s" for name, seconds in COSTS.items())
    return [], Section(
        key=experiment,
        title="Moves with a cost",
        lead=f"The published simulator moves jobs for free. Here a move has the cost of a current GPU ({costs}), and a placement "
        f"that places all jobs again moves a running job only if that pays within an hour. {OURS} gives jobs wider than a node "
        "few nodes. Under FIFO.",
        plots=[bars("Mean JCT if moves have a cost", "Relative to sticky packed with the same costs", [("", drawn)])]
        if drawn
        else [],
        heads=["placement", "mean JCT saved", "makespan saved", "moves per run"],
        rows=rows,
        problems=_problems(results, experiment),
    )


# Rounds --------------------------------------------------------------------------------------------------------------


def _shifts(results: Sequence[CellResult]) -> tuple[list[Claim], Section]:
    experiment = "shifts"
    gains = _gains_by(results, experiment)
    findings = [
        f"{NAMES[placer]} saves {format_percent(min(curve.values()))} to {format_percent(max(curve.values()))}, "
        f"{format_percent(median(curve.values()))} in the middle."
        for placer, curve in gains.items()
        if curve
    ]
    rows = []
    for group in _groups(results, experiment):
        for placer in (PAL, PM_FIRST):
            found = [ratios(results, experiment, placer, at=x) for x in _values(results, experiment)]
            each = [100 * (1 - ratio[group]) for ratio in found if group in ratio]
            if each:
                rows.append(
                    [
                        f"{group}, {NAMES[placer]}",
                        format_percent(min(each)),
                        format_percent(median(each)),
                        format_percent(max(each)),
                    ]
                )
    return [], Section(
        key=experiment,
        title="When rounds begin",
        lead="All jobs are submitted some seconds later, so rounds begin at other moments of the same trace. Nothing else "
        "changes, so the differences are chance and show how precise the gains are. Under FIFO.",
        found=findings,
        plots=_relative(gains, "Mean JCT by when rounds begin", "delay of all jobs, seconds"),
        heads=["workload", "least saved", "median", "most"],
        rows=rows,
        problems=_problems(results, experiment),
    )


EXPERIMENTS: Sequence[Experiment] = (_placements, _utilization, _locality, _seeds, _machines, _moves, _shifts)
