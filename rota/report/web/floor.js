// The floor plan: every GPU in its node and rack, coloured by its slowness for an application class, or by how busy it was.

// Levels of scores: the upper limit of each, and its colour in OKLCH on light and on dark pages. Blue is faster and orange slower
// than the median, which most people can distinguish. The slower a GPU is, the more it stands out from the page.
const SCORE_LEVELS = [
    [0.95, [0.52, 0.13, 255], [0.68, 0.13, 245]],
    [0.98, [0.74, 0.09, 245], [0.5, 0.09, 250]],
    [1.02, [0.885, 0.004, 250], [0.36, 0.01, 250]],
    [1.05, [0.87, 0.1, 88], [0.47, 0.07, 70]],
    [1.1, [0.78, 0.14, 70], [0.57, 0.11, 66]],
    [1.2, [0.67, 0.16, 52], [0.66, 0.14, 64]],
    [1.5, [0.55, 0.16, 40], [0.76, 0.15, 70]],
    [2, [0.46, 0.16, 33], [0.86, 0.14, 90]],
    [Infinity, [0.36, 0.14, 26], [0.96, 0.07, 105]],
];
// Fractions of the time, from never to always.
const BUSY_LEVELS = [
    [0, [0.93, 0.004, 250], [0.29, 0.008, 250]],
    [0.2, [0.85, 0.05, 245], [0.41, 0.05, 250]],
    [0.4, [0.75, 0.08, 247], [0.52, 0.08, 250]],
    [0.6, [0.64, 0.11, 249], [0.63, 0.1, 248]],
    [0.8, [0.52, 0.12, 252], [0.75, 0.1, 245]],
    [1, [0.38, 0.11, 255], [0.88, 0.07, 240]],
];
const TABLE_GPUS = 20;

function setUpFloor(data) {
    const canvas = byId('floor').querySelector('canvas'),
        runs = byId('floor-run'),
        ways = byId('floor-colour');
    runs.append(...runOptions(data));
    runs.closest('label').hidden = data.runs.length < 2;
    const floor = { canvas, run: null, ways: null, way: null, plan: null, at: null };
    const render = () => renderFloor(floor);
    const offer = () => {
        const wanted = ways.value;
        floor.run = data.runs[Number(runs.value)];
        floor.ways = floorWays(floor.run);
        ways.replaceChildren(...floor.ways.map((way) => make('option', { value: way.key }, way.option)));
        if (floor.ways.some((way) => way.key === wanted)) ways.value = wanted;
        ways.closest('label').hidden = floor.ways.length < 2;
        pick();
    };
    const pick = () => {
        floor.way = floor.ways.find((way) => way.key === ways.value);
        floor.at = null;
        render();
    };
    runs.addEventListener('change', offer);
    ways.addEventListener('change', pick);
    offer();
    onWidth(byId('floor'), render);
    onChange((changed) => {
        if ('theme' in changed) render();
    });
    floorGestures(floor);
}

// Colourings: a value for every GPU, their levels, and texts.
function floorWays(run) {
    const { scores, placement } = run;
    const gpus = run.cluster.gpus;
    const busy = Float64Array.from(placement.busy, (share) => share / 10000);
    const found = (scores ? scores.classes : []).map((name, i) => ({
        key: String(i),
        option: `class ${name} (${plural(placement.class_jobs[i], 'job')})`,
        about: `how slow it is for class ${name}`,
        values: scores.values.subarray(i * gpus, (i + 1) * gpus),
        levels: SCORE_LEVELS,
        outlier: scores.outlier[i],
        ofNode: (values) => values.reduce((a, b) => Math.max(a, b)),
        format: score,
    }));
    const ofNode = (values) => values.reduce((a, b) => a + b) / values.length;
    const words = { option: 'how busy', about: 'how busy it was', outlier: null, format: percent };
    found.push({ key: 'busy', values: busy, levels: BUSY_LEVELS, ofNode, ...words });
    return found;
}

function score(value) {
    return value.toFixed(value < 9.995 ? 2 : 1);
}

function percent(share) {
    return share > 0 && share < 0.005 ? '<1%' : `${Math.round(share * 100)}%`;
}

// Index of the level of a value. A level includes its upper limit; scores are 32-bit numbers, so the limit has a tolerance.
function levelOf(way, value) {
    return way.levels.findIndex(([edge]) => value <= edge * (1 + 1e-6)) >>> 0;
}

function levelColours(way) {
    return way.levels.map(([, light, dark]) => hexOfPixel(pixelOf(...(isDark() ? dark : light))));
}

function levelLabel(way, i) {
    const [edge] = way.levels[i];
    const below = i > 0 ? way.levels[i - 1][0] : null;
    if (way.levels === BUSY_LEVELS) return i ? `${i > 1 ? `${below * 100} to ` : 'up to '}${edge * 100}%` : 'never';
    if (i === 0) return `up to ${score(edge)}`;
    return edge === Infinity ? `above ${score(below)}` : `${score(below)} to ${score(edge)}`;
}

function renderFloor(floor) {
    const { canvas, run, way } = floor;
    const width = Math.max(canvas.parentElement.clientWidth - 4, 260),
        dense = window.devicePixelRatio || 1;
    const plan = floorPlan(run.cluster, width);
    floor.plan = plan;
    canvas.width = Math.round((width + 4) * dense);
    canvas.height = Math.round((plan.height + 4) * dense);
    canvas.style.height = `${plan.height + 4}px`;
    const context = canvas.getContext('2d');
    // Leave a margin for the rings.
    context.setTransform(dense, 0, 0, dense, 2 * dense, 2 * dense);
    paintFloor(floor, context);
    paintNames(floor, context);
    floorWords(floor);
    if (byId('floor-data').open) floorTable(floor);
    canvas.dataset.size = plan.size;
}

// The value that a cell shows: that of a GPU, or of all GPUs of a node.
function cellValue({ run, way, plan }, node, cell) {
    const { first } = run.cluster.nodes;
    return plan.coarse ? way.ofNode(way.values.subarray(first[node], first[node + 1])) : way.values[first[node] + cell];
}

function paintFloor(floor, context) {
    const { way, plan } = floor;
    const colours = levelColours(way),
        ink = themeColour('--ink'),
        page = themeColour('--page'),
        ringed = [];
    plan.blocks.forEach((block, node) => {
        for (let cell = 0; cell < block.cells; cell += 1) {
            const value = cellValue(floor, node, cell);
            const spot = [cellAt(plan, node, cell), colours[levelOf(way, value)]];
            if (way.outlier !== null && value > way.outlier) ringed.push(spot);
            context.fillStyle = spot[1];
            context.fillRect(...spot[0], plan.size, plan.size);
        }
    });
    // Rings are drawn last, since they cover their neighbours. If there is room, a line in the page's colour separates a ring
    // from its cell.
    const { size } = plan,
        [thick, inside] = size >= 10 ? [2, 2] : [1, 0];
    for (const [[x, y], colour] of ringed) {
        context.fillStyle = ink;
        context.fillRect(x - thick, y - thick, size + 2 * thick, size + 2 * thick);
        context.fillStyle = page;
        context.fillRect(x, y, size, size);
        context.fillStyle = colour;
        context.fillRect(x + inside, y + inside, size - 2 * inside, size - 2 * inside);
    }
    if (!plan.coarse) paintCordoned(floor, context);
}

// Draws a cross over every GPU that is out of service.
function paintCordoned({ run, plan }, context) {
    const { first } = run.cluster.nodes,
        { size } = plan;
    for (const gpu of run.cordoned) {
        const node = nodeOf(run.cluster, gpu);
        const [x, y] = cellAt(plan, node, gpu - first[node]);
        floorCross(context, x, y, size);
    }
}

function floorCross(context, x, y, size) {
    context.strokeStyle = themeColour('--page');
    context.lineWidth = Math.max(size / 8, 1);
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + size, y + size);
    context.moveTo(x + size, y);
    context.lineTo(x, y + size);
    context.stroke();
}

function paintNames({ run, plan, at }, context) {
    const font = 'system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif';
    context.textBaseline = 'alphabetic';
    context.textAlign = 'left';
    context.fillStyle = themeColour('--ink');
    context.font = `600 12px ${font}`;
    for (const head of plan.heads) if (head.label) context.fillText(head.label, head.x, head.y + 11, head.width);
    context.fillStyle = themeColour('--soft');
    context.font = `11px ${font}`;
    if (plan.nameRoom) {
        plan.blocks.forEach((block, node) => {
            context.fillText(run.cluster.nodes.names[node], block.x, block.y - 4, Math.max(block.width, 20));
        });
    }
    if (at === null) return;
    const [x, y] = cellAt(plan, at.node, at.cell);
    context.strokeStyle = themeColour('--accent');
    context.lineWidth = 2;
    context.strokeRect(x - 1, y - 1, plan.size + 2, plan.size + 2);
}

function floorWords(floor) {
    const { canvas, run, way, plan } = floor;
    const scored = way.levels === SCORE_LEVELS;
    const { names, rack } = run.cluster.nodes;
    const racks = rack.names.some((name) => name) ? ', a group of them a rack' : '';
    const shows = scored ? 'its slowest GPU' : 'the mean of its GPUs';
    const square = plan.coarse
        ? `Too many GPUs to draw each: a square is a node and shows ${shows}${racks}.`
        : `A square is a GPU, a block a node${racks}.`;
    const median = make('a', { class: 'word', href: '#define-score' }, 'Scores');
    const about = scored
        ? [
              median,
              ' are factors on the time of a step: 1.00 is the median, more is slower.',
              run.learned ? ' These are the true ones; the scheduler had to learn them.' : '',
          ]
        : ['Colours say how much of the time from the first submission to the end of the run a job had it.'];
    byId('floor-lead').replaceChildren(`${square} `, ...about);
    const counts = new Uint32Array(way.levels.length);
    for (const value of way.values) counts[levelOf(way, value)] += 1;
    const colours = levelColours(way);
    const entries = colours.map((colour, i) =>
        make('span', { class: 'entry' }, swatch(colour), levelLabel(way, i), make('small', {}, count(counts[i]))),
    );
    const outliers = way.outlier === null ? 0 : way.values.reduce((sum, value) => sum + (value > way.outlier), 0);
    if (outliers) {
        const words = `ringed: outlier, more than three deviations slower (above ${score(way.outlier)})`;
        const ring = make('span', { class: 'swatch ringed' });
        entries.push(make('span', { class: 'entry' }, ring, words, make('small', {}, count(outliers))));
    }
    if (run.cordoned.length) {
        const words = make('small', {}, count(run.cordoned.length));
        entries.push(make('span', { class: 'entry' }, 'crossed: out of service', words));
    }
    byId('floor-legend').replaceChildren(...entries);
    const levels = colours.map((_, i) => `${levelLabel(way, i)} ${count(counts[i])}`).filter((_, i) => counts[i]);
    const all = `${plural(run.cluster.gpus, 'GPU')} on ${plural(names.length, 'node')}`;
    const keys = 'Left and right keys go from one to the next.';
    canvas.setAttribute('aria-label', `Floor plan of ${all}, each by ${way.about}: ${levels.join(', ')}. ${keys}`);
    byId('floor-data').querySelector('summary').textContent = scored ? 'The slowest as a table' : 'The busiest as a table';
}

function gpuRows(run, gpu) {
    const { scores, placement } = run;
    const of = (i) => score(scores.values[i * run.cluster.gpus + gpu]);
    const found = (scores ? scores.classes : []).map((name, i) => [named(`class ${name}`), of(i)]);
    if (run.cordoned.includes(gpu)) found.push(['service', 'out of it']);
    return [...found, ['busy', percent(placement.busy[gpu] / 10000)], ['jobs', count(placement.jobs[gpu])]];
}

function nodeRows({ run, ways }, node) {
    const { first } = run.cluster.nodes;
    const of = (each) => each.format(each.ofNode(each.values.subarray(first[node], first[node + 1])));
    const label = (each) => (each.key === 'busy' ? 'busy, mean' : `class ${run.scores.classes[Number(each.key)]}, slowest`);
    return [['GPUs', count(first[node + 1] - first[node])], ...ways.map((each) => [named(label(each)), of(each)])];
}

function describeFloor(floor, found, event) {
    const { run, plan } = floor;
    const { first, names, pool, rack } = run.cluster.nodes;
    const { node, cell } = found;
    const rows = plan.coarse ? nodeRows(floor, node) : gpuRows(run, first[node] + cell);
    const place = rack.names[rack.code[node]];
    if (place) rows.unshift(['rack', named(place)]);
    const kind = run.cluster.pools[pool[node]];
    const title = plan.coarse ? ['node ', named(names[node])] : [`GPU ${count(first[node] + cell)}`];
    const spot = plan.coarse ? kind : `GPU ${cell} of ${names[node]}, ${kind}`;
    showTip(event, make('b', {}, ...title), spot, tableOf(null, rows));
}

function floorGestures(floor) {
    const { canvas } = floor;
    const leave = () => {
        hideTip();
        if (floor.at === null) return;
        floor.at = null;
        renderFloor(floor);
    };
    canvas.addEventListener('pointermove', (event) => {
        const [px, py] = pointerAt(canvas, event);
        const found = cellUnder(floor.plan, px - 2, py - 2);
        if (found) describeFloor(floor, found, event);
        else hideTip();
    });
    canvas.addEventListener('pointerleave', hideTip);
    canvas.addEventListener('blur', leave);
    canvas.addEventListener('keydown', (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        floor.at = nextCell(floor.plan, floor.at, step);
        renderFloor(floor);
        const box = canvas.getBoundingClientRect();
        const [x, y] = cellAt(floor.plan, floor.at.node, floor.at.cell);
        describeFloor(floor, floor.at, { clientX: box.left + x + floor.plan.size, clientY: box.top + y });
    });
    byId('floor-data').addEventListener('toggle', () => floorTable(floor));
}

function nextCell(plan, at, step) {
    if (at === null) return { node: 0, cell: 0 };
    const { cells } = plan.blocks[at.node];
    if (at.cell + step >= 0 && at.cell + step < cells) return { node: at.node, cell: at.cell + step };
    const node = (at.node + step + plan.blocks.length) % plan.blocks.length;
    return { node, cell: step > 0 ? 0 : plan.blocks[node].cells - 1 };
}

function floorTable({ run, way }) {
    const { names, rack } = run.cluster.nodes;
    const order = Array.from(way.values.keys())
        .sort((a, b) => way.values[b] - way.values[a] || a - b)
        .slice(0, TABLE_GPUS);
    const racks = rack.names.some((name) => name);
    const classes = (run.scores ? run.scores.classes : []).map((name) => named(`Class ${name}`));
    const heads = ['GPU', 'Node', racks ? 'Rack' : null, ...classes, 'Busy', 'Jobs'];
    const rows = order.map((gpu) => {
        const node = nodeOf(run.cluster, gpu);
        const values = gpuRows(run, gpu).map(([, value]) => value);
        return [count(gpu), named(names[node]), racks ? named(rack.names[rack.code[node]]) : null, ...values];
    });
    const kept = (cells) => cells.filter((cell) => cell !== null);
    byId('floor-data').querySelector('div').replaceChildren(tableOf(kept(heads), rows.map(kept)));
}
