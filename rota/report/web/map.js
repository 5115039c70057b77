// The map of GPUs over time: which job ran where. Rectangles are written into pixels directly, so drawing a hundred thousand of
// them takes no longer than filling the screen.

const MAP = { left: TIME_LEFT, right: MARGIN.right, top: 6, bottom: 40 };

function setUpMap(data) {
    const ways = colourings(data);
    const select = byId('where-colour');
    select.append(...ways.map((way) => make('option', { value: way.key }, way.label)));
    const look = { way: ways[0], pixels: null };
    const down = data.runs.some((run) => run.outages.node.length);
    byId('where-down').hidden = !down;
    const repaint = () => {
        look.way = ways.find((way) => way.key === select.value);
        look.pixels = look.way.paint(isDark());
        const entries = look.way
            .legend(isDark())
            .map(([colour, label, jobs]) =>
                make('span', { class: 'entry' }, swatch(colour), named(label), jobs === null ? null : plural(jobs, 'job')),
            );
        if (down) entries.push(downEntry());
        byId('where-legend').replaceChildren(...entries);
    };
    repaint();
    const best = bestRun(data);
    // The first policy above the best one, since most people want that comparison.
    const first = data.runs.length > 1 ? [data.runs[0], best === data.runs[0] ? data.runs[1] : best] : [data.runs[0]];
    const maps = first.map((run, i) => gpuMap(data, run, i, look));
    byId('where-maps').replaceChildren(...maps.map((map) => map.figure));
    const render = () => maps.forEach((map) => map.render());
    onWidth(byId('where-maps'), render);
    select.addEventListener('change', () => {
        repaint();
        render();
    });
    onChange((changed) => {
        if ('theme' in changed) repaint();
        if (['theme', 'from', 'top', 'chosen'].some((name) => name in changed)) render();
    });
    byId('where-rows').append(
        button('− rows', 'More GPUs', () => zoomRows(2)),
        button('+ rows', 'Fewer GPUs', () => zoomRows(0.5)),
    );
}

function gpuMap(data, first, number, look) {
    const canvas = make('canvas', { role: 'img', tabindex: 0 });
    const note = make('span', {});
    const select = make('select', { 'aria-label': `Policy of map ${number + 1}` }, ...runOptions(data));
    select.value = first.index;
    select.hidden = data.runs.length === 1;
    const figure = make('figure', {}, make('figcaption', {}, select, note), make('div', { class: 'chart' }, canvas));
    const map = { data, run: first, canvas, look, figure, area: null };
    map.render = () => renderMap(map);
    select.addEventListener('change', () => {
        map.run = data.runs[Number(select.value)];
        describe();
        map.render();
    });
    const describe = () => {
        const { run } = map;
        const { gpus_per_row: gpus, seconds_per_cell: seconds } = run.map;
        const cell = `a cell stands for ${plural(gpus, 'GPU')} x ${duration(seconds)} and shows the job that had most of it`;
        note.textContent = `mean JCT ${beside(run)}${seconds ? `. Too many to draw each: ${cell}.` : ''}`;
        const outages = run.outages.node.length;
        const downs = outages ? `, ${plural(outages, 'outage')} of nodes` : '';
        const size = `${plural(run.cluster.gpus, 'GPU')}, ${plural(run.map.job.length, 'rectangle')}${downs}`;
        const keys = 'Arrow keys move, plus and minus zoom, 0 resets; the table of jobs has the same data.';
        canvas.setAttribute('aria-label', `GPUs by time under ${run.label}: ${size}. ${keys}`);
    };
    describe();
    mapGestures(map);
    return map;
}

function renderMap(map) {
    const { canvas, run } = map;
    const width = Math.max(canvas.parentElement.clientWidth, 280);
    const height = MAP.top + MAP.bottom + clamp(run.cluster.gpus * 11, 120, 430);
    const dense = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
    canvas.style.height = `${height}px`;
    const area = { left: MAP.left, right: width - MAP.right, top: MAP.top, bottom: height - MAP.bottom, dense };
    map.area = area;
    map.accent = pixelOfHex(themeColour('--ink'));
    map.x = linearScale(state.from, state.to, area.left, area.right);
    map.y = linearScale(state.top * run.cluster.gpus, state.bottom * run.cluster.gpus, area.top, area.bottom);
    canvas.dataset.plot = JSON.stringify([area.left, area.top, area.right, area.bottom]);
    const context = canvas.getContext('2d');
    paintJobs(map, context);
    context.setTransform(dense, 0, 0, dense, 0, 0);
    paintFrame(map, context);
}

function paintJobs(map, context) {
    const { area, run, look } = map;
    const left = Math.round(area.left * area.dense),
        top = Math.round(area.top * area.dense);
    const width = Math.round((area.right - area.left) * area.dense),
        height = Math.round((area.bottom - area.top) * area.dense);
    const image = context.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const idle = pixelOfHex(themeColour('--idle'));
    pixels.fill(idle);
    const { first_row: firstRow, rows, start, end, job, half, gpus_per_row: perRow } = run.map;
    const across = width / (state.to - state.from),
        gpus = run.cluster.gpus;
    const down = height / ((state.bottom - state.top) * gpus),
        topGpu = state.top * gpus;
    // Adjacent jobs have a gap between them if there is room for one; rows have one if they are tall enough.
    const rowGap = down * perRow >= 6 * area.dense ? Math.round(area.dense) : 0;
    const { chosen } = state;
    const paint = (i, top, bottom, below) => {
        let x0 = (start[i] - state.from) * across,
            x1 = (end[i] - state.from) * across,
            y0 = (top - topGpu) * down,
            y1 = (bottom - topGpu) * down;
        if (x1 < 0 || x0 >= width || y1 <= 0 || y0 >= height) return;
        const gap = x1 - x0 >= 4 * area.dense ? 1 : 0;
        x0 = Math.max(Math.round(x0), 0);
        x1 = Math.min(Math.max(Math.round(x1) - gap, x0 + 1), width);
        y0 = Math.max(Math.round(y0), 0);
        y1 = Math.min(Math.max(Math.round(y1) - below, y0 + 1), height);
        const own = look.pixels[job[i]];
        const colour = chosen === null ? own : job[i] === chosen ? map.accent : mixed(own, idle, 0.28);
        for (let y = y0; y < y1; y += 1) pixels.fill(colour, y * width + x0, y * width + x1);
    };
    for (let i = 0; i < job.length; i += 1) {
        const first = firstRow[i],
            last = first + rows[i];
        if (half[i] === 0) {
            paint(i, first * perRow, Math.min(last * perRow, gpus), rowGap);
            continue;
        }
        // Each of two jobs that share GPUs has half of every row.
        for (let row = first; row < last; row += 1) {
            paint(i, row + (half[i] - 1) / 2, row + half[i] / 2, half[i] === 2 ? rowGap : 0);
        }
    }
    paintOutages(map, pixels, width);
    context.putImageData(image, left, top);
}

// Draws the time axis, lines between nodes, and names of nodes and accelerator types.
function paintFrame(map, context) {
    const { area, run, x, y } = map;
    const ink = themeColour('--soft'),
        page = themeColour('--page');
    context.font = '12px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif';
    context.textBaseline = 'middle';
    context.textAlign = 'center';
    const ticks = timeTicks(state.from, state.to, (area.right - area.left) / 100);
    context.fillStyle = ink;
    for (const tick of ticks) context.fillRect(Math.round(x(tick.at)), area.bottom, 1, 5);
    for (const tick of labelled(ticks, x, 0, area.right + MAP.right)) context.fillText(tick.label, tick.x, area.bottom + 15);
    context.fillText('time since the first submission', (area.left + area.right) / 2, area.bottom + 32);
    context.save();
    context.beginPath();
    context.rect(0, area.top - 1, area.right, area.bottom - area.top + 2);
    context.clip();
    paintNodes(run.cluster, area, y, context, page, ink);
    context.restore();
}

function paintNodes(cluster, area, y, context, page, ink) {
    const { names, pool, first } = cluster.nodes;
    const tall = y(1) - y(0);
    let band = 0;
    for (let node = 0; node < names.length; node += 1) {
        const from = y(first[node]),
            to = y(first[node + 1]);
        const ends = node + 1 === names.length || pool[node + 1] !== pool[node];
        if (to - from >= 4 && !ends) {
            context.fillStyle = page;
            context.fillRect(area.left, Math.round(to) - 1, area.right - area.left, 1);
        }
        if (to - from >= 12 && names.length > cluster.pools.length) {
            context.fillStyle = ink;
            context.textAlign = 'right';
            context.fillText(names[node], area.left - 8, (Math.max(from, area.top) + Math.min(to, area.bottom)) / 2, 33);
        }
        if (!ends) continue;
        if (node + 1 < names.length) {
            context.fillStyle = page;
            context.fillRect(0, Math.round(to) - 2, area.right, tall > 6 ? 3 : 2);
        }
        const seen = [Math.max(y(first[band]), area.top), Math.min(to, area.bottom)];
        if (seen[1] - seen[0] >= 12) {
            context.fillStyle = ink;
            context.textAlign = 'left';
            context.fillText(
                cluster.pools[pool[node]],
                4,
                (seen[0] + seen[1]) / 2,
                names.length > cluster.pools.length ? 33 : 70,
            );
        }
        band = node + 1;
    }
}

// Index of the rectangle at a point. The last one drawn wins, as on the screen.
function rectangleAt(map, height, time, slack) {
    const { first_row: firstRow, rows, start, end, job, half, gpus_per_row: perRow } = map.run.map;
    const side = height % 1 < 0.5 ? 1 : 2;
    let near = -1;
    for (let i = job.length - 1; i >= 0; i -= 1) {
        if (height < firstRow[i] * perRow || height >= (firstRow[i] + rows[i]) * perRow) continue;
        if (half[i] !== 0 && half[i] !== side) continue;
        if (time >= start[i] && time < end[i]) return i;
        if (near < 0 && time >= start[i] - slack && time < end[i] + slack) near = i;
    }
    return near;
}

function nodeOf(cluster, gpu) {
    const { first, names } = cluster.nodes;
    let node = 0;
    while (node + 1 < names.length && first[node + 1] <= gpu) node += 1;
    return node;
}

function under(map, event) {
    const [px, py] = pointerAt(map.canvas, event);
    const { area } = map;
    if (!area || px < area.left || px >= area.right || py < area.top || py >= area.bottom) return null;
    const height = map.y.back(py),
        gpu = clamp(Math.floor(height), 0, map.run.cluster.gpus - 1),
        time = map.x.back(px);
    const outage = outageAt(map, px, py);
    const at = outage >= 0 ? -1 : rectangleAt(map, height, time, (state.to - state.from) / (area.right - area.left));
    return { gpu, time, outage, at };
}

function describeMap(map, event) {
    const found = under(map, event);
    if (!found) return hideTip();
    const { cluster } = map.run;
    const node = nodeOf(cluster, found.gpu);
    const { names, pool, first } = cluster.nodes;
    const spot = `GPU ${found.gpu - first[node]} of ${names[node]}, ${cluster.pools[pool[node]]}`;
    if (found.outage >= 0) return showTip(event, ...outageWords(map.run, found.outage));
    if (found.at < 0) return showTip(event, make('b', {}, 'idle'), `${spot}, at ${duration(found.time)}`);
    const job = map.run.map.job[found.at];
    return showTip(event, make('b', {}, named(jobName(map.data, job))), tableOf(null, jobRows(map.data, map.run, job)), spot);
}

function jobRows(data, run, job) {
    const { jobs } = data;
    const rows = [
        ['GPUs', count(jobs.gpus[job])],
        ['submitted', duration(jobs.submitted[job])],
        ['started', duration(run.first[job])],
        ['finished', duration(run.finished[job])],
        ['JCT', duration(run.jct[job])],
        ['of that queueing', duration(run.wait[job])],
    ];
    if (run.suspensions[job]) rows.push(['suspensions', count(run.suspensions[job])]);
    for (const key of ['tenant', 'user', 'profile']) {
        const name = jobs[key].names[jobs[key].code[job]];
        if (name) rows.push([key, named(name)]);
    }
    return rows;
}

// Dragging moves the map, a click follows a job, and the wheel zooms time, or rows with Shift.
function mapGestures(map) {
    const { canvas } = map;
    let begun = null;
    canvas.addEventListener('pointerdown', (event) => {
        if (event.button !== 0) return;
        const { from, to, top, bottom } = state;
        begun = { x: event.clientX, y: event.clientY, moved: false, from, to, top, bottom };
        canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
        if (!begun) return describeMap(map, event);
        const { area } = map;
        const dx = event.clientX - begun.x,
            dy = event.clientY - begun.y;
        begun.moved = begun.moved || Math.abs(dx) + Math.abs(dy) > 4;
        if (!begun.moved) return undefined;
        hideTip();
        canvas.classList.add('moving');
        const width = begun.to - begun.from,
            height = begun.bottom - begun.top;
        const from = clamp(begun.from - (dx / (area.right - area.left)) * width, 0, state.end - width);
        const top = clamp(begun.top - (dy / (area.bottom - area.top)) * height, 0, 1 - height);
        return change({ from, to: from + width, top, bottom: top + height });
    });
    const stop = (event) => {
        if (begun && !begun.moved && event.type === 'pointerup') {
            const found = under(map, event);
            if (found && found.at >= 0) choose(map.run.map.job[found.at]);
            else if (found) change({ chosen: null });
        }
        begun = null;
        canvas.classList.remove('moving');
    };
    canvas.addEventListener('pointerup', stop);
    canvas.addEventListener('pointercancel', stop);
    canvas.addEventListener('pointerleave', hideTip);
    canvas.addEventListener('dblclick', resetRange);
    timeWheel(canvas, (event) => map.x.back(clamp(pointerAt(canvas, event)[0], map.area.left, map.area.right)));
    const moveRows = (share) => {
        const by = (state.bottom - state.top) * share;
        setRows(state.top + by, state.bottom + by);
    };
    timeKeys(canvas, { ArrowUp: () => moveRows(-0.2), ArrowDown: () => moveRows(0.2) });
}
