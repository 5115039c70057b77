// Distribution of the times in which jobs are done, or for which they wait: one curve per policy on a logarithmic time axis.

function setUpTimes(data) {
    const host = byId('times-chart');
    const sorted = {
        jct: data.runs.map((run) => sortedKnown(run.jct)),
        wait: data.runs.map((run) => sortedKnown(run.wait)),
    };
    let what = 'jct';
    const finished = sorted.jct.some((values) => values.length);
    // There is no choice if no job waited, and no chart if none finished.
    byId('times-what').hidden = !sorted.wait.some((values) => values[values.length - 1] > 0);
    for (const id of ['times-chart', 'times-legend', 'times-data']) byId(id).hidden = !finished;
    if (!finished) {
        byId('times-lead').textContent = `No job finished.${data.about}`;
        return;
    }
    const render = () => {
        swap(host, timesChart(data, sorted[what], what, host));
        byId('times-lead').textContent = timesLead(data, what);
        runLegend(byId('times-legend'), data.runs, (run) => duration(what === 'jct' ? run.mean_jct : run.mean_wait));
        percentiles(data.runs, sorted[what], byId('times-data').querySelector('div'));
    };
    exclusive(document.querySelectorAll('#times button[data-what]'), (pressed) => {
        what = pressed.dataset.what;
        render();
    });
    onWidth(host, render);
    onChange((changed) => {
        if ('hidden' in changed || 'chosen' in changed) render();
    });
}

function timesLead(data, what) {
    const about =
        what === 'jct'
            ? 'The share of jobs that finished within a time of their submission'
            : 'The share of jobs that waited no longer than this, all their waits together';
    return `${about}; further left is better. Triangles and the legend: the mean.${data.about}`;
}

function timesChart(data, sorted, what, host) {
    const area = plotArea(host, 360);
    const known = sorted.filter((values) => values.length);
    // Waits of 0 are common and have no place on the axis. They are included at its left end.
    const smallest = what === 'jct' ? Math.min(...known.map((values) => values.find((value) => value > 0) || Infinity)) : 1;
    const [low, high] = logTimeRange(smallest, Math.max(...known.map((values) => values[values.length - 1]), 0));
    const x = logScale(low, high, area.left, area.right);
    const y = linearScale(0, 1, area.bottom, area.top);
    const svg = frame(area, {
        x,
        y,
        xTicks: logTimeTicks(low, high),
        yTicks: [0, 0.25, 0.5, 0.75, 1].map((at) => ({ at, label: `${at * 100}%` })),
        xTitle: what === 'jct' ? 'job completion time (JCT)' : 'queueing time',
        yTitle: 'jobs',
        label: timesLabel(data, sorted, what),
    });
    const runs = shownRuns(data);
    for (const run of runs) {
        svg.append(draw('path', { class: 'curve', d: cdfPath(sorted[run.index], x, y, area), ...strokeOf(run) }));
        const mean = x(what === 'jct' ? run.mean_jct : run.mean_wait);
        if (mean > area.left) svg.append(draw('path', { d: `M${mean} ${area.bottom - 1}l-5 -8h10z`, fill: run.colour }));
        markChosen(svg, run, what, x, y, sorted);
    }
    if (what === 'jct' && data.bound) {
        const bound = duration(data.bound);
        svg.append(verticalMark(area, x(data.bound), `no schedule has a mean below ${bound}`, `bound ${bound}`));
    }
    readPercentile(svg, area, runs, sorted, x, y);
    return svg;
}

// One point per pixel, for any number of jobs.
function cdfPath(values, x, y, area) {
    const xs = [],
        ys = [];
    for (let pixel = area.left; pixel <= area.right; pixel += 1) {
        xs.push(pixel);
        ys.push(y(values.length ? upTo(values, x.back(pixel)) / values.length : 0));
    }
    return stepPath(xs, ys);
}

function markChosen(svg, run, what, x, y, sorted) {
    const value = state.chosen === null ? NaN : run[what][state.chosen];
    if (Number.isNaN(value)) return;
    const values = sorted[run.index];
    const at = { cx: x(value), cy: y(upTo(values, value) / values.length), r: 5 };
    svg.append(draw('circle', { ...at, fill: run.colour, stroke: 'var(--page)', 'stroke-width': 2 }));
}

function timesLabel(data, sorted, what) {
    const medians = data.runs.map((run) => `${run.label} ${duration(quantile(sorted[run.index], 0.5))}`).join(', ');
    const about = what === 'jct' ? 'job completion times' : 'queueing times';
    return `Distribution of ${about}. Medians: ${medians}. Up and down keys read other percentiles.`;
}

// The height is a fraction of the jobs. The tooltip shows for each policy the time within which that fraction was done.
function readPercentile(svg, area, runs, sorted, x, y) {
    const cross = draw('g', {});
    svg.append(cross);
    let share = 0.5;
    const show = (event) => {
        const values = runs.map((run) => quantile(sorted[run.index], share));
        const known = Array.from(runs.keys()).filter((i) => !Number.isNaN(values[i]));
        const at = y(share);
        cross.replaceChildren(
            draw('line', { class: 'cross', x1: area.left, x2: area.right, y1: at, y2: at }),
            ...known.map((i) =>
                draw('circle', { cx: x(values[i]), cy: at, r: 4, fill: runs[i].colour, 'pointer-events': 'none' }),
            ),
        );
        const rows = known
            .sort((i, j) => values[i] - values[j])
            .map((i) => [make('span', {}, swatch(runs[i].colour), named(runs[i].label)), duration(values[i])]);
        showTip(event, make('b', {}, `${Math.round(share * 100)}% of the jobs within`), tableOf(null, rows));
    };
    svg.addEventListener('pointermove', (event) => {
        share = clamp(y.back(pointerAt(svg, event)[1]), 0, 1);
        show(event);
    });
    svg.addEventListener('pointerleave', () => {
        cross.replaceChildren();
        hideTip();
    });
    svg.addEventListener('blur', () => {
        cross.replaceChildren();
        hideTip();
    });
    svg.addEventListener('keydown', (event) => {
        if (event.key !== 'ArrowUp' && event.key !== 'ArrowDown') return;
        event.preventDefault();
        share = clamp(Math.round(share * 100 + (event.key === 'ArrowUp' ? 5 : -5)) / 100, 0, 1);
        const box = svg.getBoundingClientRect();
        show({ clientX: box.left + area.left, clientY: box.top + y(share) });
    });
}
