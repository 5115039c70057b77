// Placement: the floor plan, jobs on more nodes than necessary, and moves. Its charts share the time range of all others.

const SPAN_PARTS = [
    ['on one node', 'var(--gain)'],
    ['on several nodes, as few as possible', 'var(--hatch)'],
    ['on more nodes than needed', 'var(--loss)'],
];

function setUpPlacement(data) {
    setUpFloor(data);
    const several = data.runs.some((run) => run.cluster.nodes.names.length > 1);
    byId('spans').hidden = !several;
    for (const run of data.runs) run.movesUpTo = summedUp(run.placement.moves);
    const hosts = { scattered: byId('scattered-chart'), moves: byId('moves-chart') };
    const scattered = data.runs.some((run) => run.placement.spread.beyond),
        moved = data.runs.some((run) => movesOf(run));
    for (const [what, some] of [
        ['scattered', scattered],
        ['moves', moved],
    ]) {
        byId(`${what}-none`).hidden = some;
        hosts[what].hidden = !some;
        for (const part of ['legend', 'note', 'data', 'tools']) byId(`${what}-${part}`)?.toggleAttribute('hidden', !some);
    }
    const gangs = data.runs.some((run) => run.placement.spread.jobs);
    byId('span-none').hidden = gangs;
    byId('span-some').hidden = !gangs;
    if (several && gangs) {
        spanTable(data);
        hintMore(byId('span-table'));
    }
    const render = () => {
        if (scattered) renderScattered(data, hosts.scattered);
        if (moved) renderMoves(data, hosts.moves);
    };
    onWidth(byId('placement'), render);
    onChange((changed) => {
        if ('from' in changed || 'hidden' in changed) render();
    });
}

function summedUp(counts) {
    const sums = new Float64Array(counts.length + 1);
    counts.forEach((value, i) => {
        sums[i + 1] = sums[i] + value;
    });
    return sums;
}

function movesOf(run) {
    return run.movesUpTo[run.movesUpTo.length - 1];
}

function ofAll(part, all) {
    return all > 0 ? percent(part / all) : '-';
}

function spanTable(data) {
    const heads = [
        'Policy',
        'Jobs of several GPUs',
        'Always on one node',
        'Ever on more than needed',
        'GPU time by nodes',
        'GPU time on one node',
        'GPU time on more than needed',
        'Mean nodes beyond the fewest',
        'Moves',
    ];
    const rows = data.runs.map((run) => {
        const { spread } = run.placement;
        return [
            make('span', {}, swatch(run.colour), named(run.label)),
            count(spread.jobs),
            `${count(spread.one_node)} (${ofAll(spread.one_node, spread.jobs)})`,
            `${count(spread.beyond)} (${ofAll(spread.beyond, spread.jobs)})`,
            spanBar(run),
            ofAll(spread.one_node_gpu_seconds, spread.gpu_seconds),
            ofAll(spread.beyond_gpu_seconds, spread.gpu_seconds),
            spread.nodes_beyond === null ? '-' : spread.nodes_beyond.toFixed(2),
            count(movesOf(run)),
        ];
    });
    const table = tableOf(heads, rows);
    byId('span-table').replaceChildren(...table.childNodes);
    const entries = SPAN_PARTS.map(([label, colour]) => make('span', { class: 'entry' }, swatch(colour), label));
    byId('span-legend').replaceChildren(...entries);
}

// GPU time by number of nodes, as segments of a bar.
function spanBar(run) {
    const { gpu_seconds: all, one_node_gpu_seconds: one, beyond_gpu_seconds: beyond } = run.placement.spread;
    if (!(all > 0)) return '-';
    const parts = [one, Math.max(all - one - beyond, 0), beyond].map((seconds) => seconds / all);
    const label = parts.map((share, i) => `${percent(share)} ${SPAN_PARTS[i][0]}`).join(', ');
    const svg = draw('svg', { viewBox: '0 0 200 12', role: 'img', 'aria-label': `GPU time under ${run.label}: ${label}` });
    let x = 0;
    parts.forEach((share, i) => {
        svg.append(draw('rect', { x: x * 200, width: share * 200, y: 0, height: 12, fill: SPAN_PARTS[i][1] }));
        x += share;
    });
    svg.append(draw('title', {}, label));
    return svg;
}

function renderScattered(data, host) {
    const most = Math.max(...shownRuns(data).map((run) => run.placement.scattered.reduce((a, b) => Math.max(a, b), 0)));
    const note = ({ placement: { spread } }) => ofAll(spread.beyond_gpu_seconds, spread.gpu_seconds);
    const words = data.runs.map((run) => `${run.label} ${note(run)}`).join(', ');
    const label = `GPUs of jobs on more nodes than needed, over time. Share of the GPU time of jobs of several GPUs: ${words}.`;
    const { svg, area, x, y } = timeFrame(host, most, 'GPUs', label);
    timeGestures(svg, area, x, overlaid(svg, data, area, y, (run) => run.placement.scattered));
    swap(host, svg);
    runLegend(byId('scattered-legend'), data.runs, note);
}

function renderMoves(data, host) {
    const runs = shownRuns(data);
    const most = Math.max(...runs.map(movesOf));
    const words = data.runs.map((run) => `${run.label} ${count(movesOf(run))}`).join(', ');
    const { svg, area, x, y } = timeFrame(host, most, 'moves', `Moves of jobs so far, over time. In all: ${words}.`);
    const steps = Math.round((area.right - area.left) / 4);
    const times = linearScale(0, steps, state.from, state.to);
    const xs = Array.from({ length: steps + 1 }, (_, i) => area.left + ((area.right - area.left) * i) / steps);
    const lines = runs.map((run) => {
        const means = Array.from({ length: steps }, (_, i) => movesAt(data, run, times(i + 1)));
        svg.append(draw('path', { class: 'curve', d: stepPath(xs, means.map(y)), ...strokeOf(run) }));
        return { colour: run.colour, label: run.label, means };
    });
    timeGestures(svg, area, x, lines);
    swap(host, svg);
    runLegend(byId('moves-legend'), data.runs, (run) => count(movesOf(run)));
}

// Number of moves until a time, including the whole bin that contains it.
function movesAt(data, run, time) {
    return run.movesUpTo[clamp(Math.ceil((time / state.end) * data.bins - 1e-6), 0, data.bins)];
}
