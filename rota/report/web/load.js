// Busy GPUs and waiting jobs over time. Both charts and the map share one time range.

function setUpLoad(data) {
    const select = byId('load-run');
    select.append(make('option', { value: '' }, 'all policies'), ...runOptions(data));
    if (data.runs.length === 1) select.value = '0';
    select.closest('label').hidden = data.runs.length === 1;
    const hosts = { busy: byId('busy-chart'), queue: byId('queue-chart') };
    const waited = data.runs.some((run) => run.queue.some((jobs) => jobs > 0));
    byId('queue-none').hidden = waited;
    for (const id of ['queue-chart', 'queue-legend']) byId(id).hidden = !waited;
    const render = () => {
        const alone = select.value === '' ? null : data.runs[Number(select.value)];
        renderBusy(data, hosts.busy, alone);
        if (waited) renderQueue(data, hosts.queue, alone);
        for (const note of ['busy-note', 'queue-note']) byId(note).hidden = Boolean(alone);
        if (!waited) byId('queue-note').hidden = true;
        if (byId('load-data').open) loadTable(data);
    };
    select.addEventListener('change', render);
    byId('load-data').addEventListener('toggle', () => loadTable(data));
    onWidth(hosts.busy, render);
    onChange((changed) => {
        if ('from' in changed || 'hidden' in changed) render();
    });
    for (const group of document.querySelectorAll('.zoom')) group.append(...zoomButtons());
    onChange(() => showRange(data));
    showRange(data);
}

function zoomButtons() {
    return [
        button('−', 'Longer range of time', () => zoomTime(2)),
        button('+', 'Shorter range of time', () => zoomTime(0.5)),
        button('Reset', 'The whole range of time', resetRange),
    ];
}

function showRange(data) {
    const whole = state.from === 0 && state.to === state.end;
    const shown = whole
        ? `all ${duration(state.end)}`
        : `${duration(state.from)} to ${duration(state.to)} after the first submission`;
    for (const place of document.querySelectorAll('.range')) {
        place.textContent = `Shown: ${shown}.${data.load === null ? '' : ` Offered load ${data.load.toFixed(2)}.`}${data.about}`;
        place.dataset.from = state.from;
        place.dataset.to = state.to;
    }
}

// Means over intervals of a few pixels, weighted by the part of each bin in the interval. They are exact, and lines stay
// distinct.
function meansOver(pixels, values, offset, bins, area) {
    const steps = Math.round((area.right - area.left) / pixels);
    const times = linearScale(0, steps, state.from * (bins / state.end), state.to * (bins / state.end));
    const xs = Array.from({ length: steps + 1 }, (_, i) => area.left + ((area.right - area.left) * i) / steps);
    const means = Array.from({ length: steps }, (_, i) => meanOf(values, offset, bins, times(i), times(i + 1)));
    return [xs, means];
}

function meanOf(values, offset, bins, from, to) {
    let total = 0;
    for (let bin = Math.min(Math.floor(from), bins - 1); bin < bins && bin < to; bin += 1) {
        total += values[offset + bin] * (Math.min(to, bin + 1) - Math.max(from, bin));
    }
    return total / (to - from);
}

function timeFrame(host, most, yTitle, label) {
    const area = plotArea(host, 236, TIME_LEFT);
    const x = linearScale(state.from, state.to, area.left, area.right);
    const y = linearScale(0, Math.max(most * 1.06, 1), area.bottom, area.top);
    const svg = frame(area, {
        x,
        y,
        xTicks: timeTicks(state.from, state.to, area.width / 110),
        yTicks: countTicks(Math.max(most * 1.06, 1), 5),
        xTitle: 'time since the first submission',
        yTitle,
        label,
    });
    return { svg, area, x, y };
}

function renderBusy(data, host, alone) {
    const most = Math.max(...data.runs.map((run) => run.cluster.gpus));
    const words = data.runs.map((run) => `${run.label} ${Math.round((run.busy_share || 0) * 100)}%`).join(', ');
    const label = `Busy GPUs over time. Share of all GPU time: ${words}. Arrow keys move, plus and minus zoom, 0 resets.`;
    const { svg, area, x, y } = timeFrame(host, most, 'GPUs', label);
    const lines = alone ? stacked(svg, alone, data, area, y) : overlaid(svg, data, area, y, (run) => run.total);
    svg.append(
        draw('line', { class: 'mark', x1: area.left, x2: area.right, y1: y(most), y2: y(most) }),
        draw('text', { class: 'halo', x: area.right, y: y(most) - 4, 'text-anchor': 'end' }, `all ${plural(most, 'GPU')}`),
    );
    timeGestures(svg, area, x, lines);
    swap(host, svg);
    const legend = byId('busy-legend');
    if (!alone) runLegend(legend, data.runs, (run) => (run.busy_share === null ? '' : `${Math.round(run.busy_share * 100)}%`));
    else
        legend.replaceChildren(
            ...alone.cluster.pools.map((pool, i) => make('span', { class: 'entry' }, swatch(poolColour(data, i)), pool)),
        );
}

function renderQueue(data, host, alone) {
    const runs = alone ? [alone] : shownRuns(data);
    const most = Math.max(...runs.map((run) => run.queue.reduce((a, b) => Math.max(a, b), 0)));
    const words = data.runs.map((run) => `${run.label} ${amount(run.queue.reduce((a, b) => a + b, 0) / data.bins)}`).join(', ');
    const { svg, area, x, y } = timeFrame(host, most, 'jobs', `Waiting jobs over time. On average: ${words}.`);
    const lines = overlaid(svg, data, area, y, (run) => run.queue, alone);
    timeGestures(svg, area, x, lines);
    swap(host, svg);
    if (alone) byId('queue-legend').replaceChildren();
    else runLegend(byId('queue-legend'), data.runs, (run) => duration(run.mean_wait));
}

function overlaid(svg, data, area, y, values, alone) {
    return (alone ? [alone] : shownRuns(data)).map((run) => {
        const [xs, means] = meansOver(4, values(run), 0, data.bins, area);
        svg.append(draw('path', { class: 'curve', d: stepPath(xs, means.map(y)), ...strokeOf(run) }));
        return { colour: run.colour, label: run.label, means };
    });
}

function poolColour(data, pool) {
    return data.palette[pool % data.palette.length];
}

function stacked(svg, run, data, area, y) {
    let floor = null;
    const lines = run.cluster.pools.map((pool, i) => {
        const [xs, means] = meansOver(1, run.busy, i * data.bins, data.bins, area);
        const below = floor || means.map(() => 0);
        floor = means.map((mean, at) => mean + below[at]);
        const roof = stepPath(xs, floor.map(y));
        const back = stepPath([...xs].reverse(), [...below].reverse().map(y)).replace('M', 'L');
        svg.append(draw('path', { d: `${roof}${back}Z`, fill: poolColour(data, i), 'fill-opacity': 0.75 }));
        return { colour: poolColour(data, i), label: pool, means };
    });
    return lines.reverse();
}

// Moving shows the values of all lines. Dragging zooms to a range, a double click shows everything, and the wheel zooms.
function timeGestures(svg, area, x, lines) {
    const cross = draw('g', {});
    svg.append(cross);
    let begun = null;
    const inside = (event) => clamp(pointerAt(svg, event)[0], area.left, area.right);
    svg.addEventListener('pointerdown', (event) => {
        if (event.button !== 0 || event.pointerType === 'touch') return;
        begun = inside(event);
        svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener('pointermove', (event) => {
        const at = inside(event);
        cross.replaceChildren(draw('line', { class: 'cross', x1: at, x2: at, y1: area.top, y2: area.bottom }));
        if (begun !== null) {
            const across = { x: Math.min(begun, at), width: Math.abs(at - begun) };
            cross.append(draw('rect', { class: 'pick', ...across, y: area.top, height: area.bottom - area.top }));
        }
        const steps = lines[0].means.length;
        const step = clamp(Math.floor(((at - area.left) / (area.right - area.left)) * steps), 0, steps - 1);
        const rows = lines.map((line) => [make('span', {}, swatch(line.colour), named(line.label)), amount(line.means[step])]);
        showTip(event, make('b', {}, `at ${duration(x.back(at))}`), tableOf(null, rows));
    });
    svg.addEventListener('pointerup', (event) => {
        if (begun === null) return;
        const [from, to] = [begun, inside(event)].sort((a, b) => a - b);
        begun = null;
        if (to - from > 4) setTime(x.back(from), x.back(to));
    });
    svg.addEventListener('pointerleave', () => {
        cross.replaceChildren();
        hideTip();
    });
    svg.addEventListener('dblclick', resetRange);
    timeWheel(svg, (event) => x.back(inside(event)));
    timeKeys(svg);
}

function loadTable(data) {
    const steps = 24,
        width = (state.to - state.from) / steps,
        scale = data.bins / state.end;
    const mean = (values, from) => amount(meanOf(values, 0, data.bins, from * scale, (from + width) * scale));
    const heads = data.runs.flatMap((run) => [`${run.label} busy`, `${run.label} waiting`]).map(named);
    const rows = Array.from({ length: steps }, (_, i) => {
        const from = state.from + i * width;
        return [duration(from), ...data.runs.flatMap((run) => [mean(run.total, from), mean(run.queue, from)])];
    });
    byId('load-data')
        .querySelector('div')
        .replaceChildren(tableOf(['From', ...heads], rows));
}
