// Gain and loss of every job between two policies: a scatter plot on two logarithmic axes, and the jobs that differ most.

const SAME = 0.01,
    LISTED = 10;

function setUpGain(data) {
    const from = byId('gain-from'),
        to = byId('gain-to'),
        host = byId('gain-chart');
    for (const select of [from, to]) select.append(...runOptions(data));
    from.value = 0;
    to.value = bestRun(data).index || 1;
    const canvas = make('canvas', { role: 'img', tabindex: 0 });
    host.append(canvas);
    const view = { data, canvas, order: 'time' };
    const pick = () => {
        Object.assign(view, pairOf(data, data.runs[Number(from.value)], data.runs[Number(to.value)]));
        describeGain(view);
        byId('gain-jobs').hidden = !view.jobs.length;
        renderGain(view);
        listGain(view);
    };
    from.addEventListener('change', pick);
    to.addEventListener('change', pick);
    exclusive(document.querySelectorAll('#gain button[data-order]'), (pressed) => {
        view.order = pressed.dataset.order;
        listGain(view);
    });
    pick();
    onWidth(host, () => renderGain(view));
    onChange((changed) => {
        if ('theme' in changed || 'chosen' in changed) renderGain(view);
    });
    gainGestures(view);
}

// The outcome of every job that finished under both policies: -1 if faster, 0 if the same, 1 if slower.
function pairOf(data, a, b) {
    const jobs = [],
        verdict = [],
        ratios = [];
    const counts = { faster: 0, same: 0, slower: 0 };
    for (let job = 0; job < a.jct.length; job += 1) {
        const before = a.jct[job],
            after = b.jct[job];
        if (Number.isNaN(before) || Number.isNaN(after)) continue;
        const same = Math.abs(after - before) <= SAME * Math.max(before, after);
        const turn = same ? 0 : Math.sign(after - before);
        jobs.push(job);
        verdict.push(turn);
        ratios.push(before > 0 ? after / before : after > 0 ? Infinity : 1);
        counts[same ? 'same' : turn < 0 ? 'faster' : 'slower'] += 1;
    }
    return { a, b, jobs: Uint32Array.from(jobs), verdict: Int8Array.from(verdict), ratios: Float64Array.from(ratios), counts };
}

function describeGain({ a, b, jobs, ratios, counts, canvas, data }) {
    const median = quantile(Float64Array.from(ratios).sort(), 0.5);
    const lost = a.jct.length - jobs.length;
    const lead = byId('gain-lead');
    const counted = `${plural(counts.faster, 'job')} faster, ${count(counts.slower)} slower, ${count(counts.same)} `;
    const rest = [
        Number.isNaN(median) ? '' : `; median ratio ${ratio(median)}`,
        `. Mean JCT from ${beside(a)} to ${beside(b)}`,
        lost ? `; ${plural(lost, 'job')} did not finish under both.` : '.',
        data.about,
    ];
    const same = make('a', { class: 'word', href: '#define-same' }, 'the same');
    lead.replaceChildren('With ', named(b.label), ' instead of ', named(a.label), ': ', make('b', {}, counted), same, ...rest);
    Object.assign(lead.dataset, counts);
    canvas.setAttribute('aria-label', `JCT of every job under ${a.label} and under ${b.label}: ${counted}the same.`);
}

function renderGain(view) {
    const { canvas, a, b, jobs } = view;
    const width = Math.max(canvas.parentElement.clientWidth, 280),
        height = clamp(width, 260, 560);
    const dense = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
    canvas.style.height = `${height}px`;
    const area = { left: 74, right: width - 14, top: 12, bottom: height - 46 };
    let smallest = Infinity,
        largest = 0;
    for (const job of jobs) {
        for (const value of [a.jct[job], b.jct[job]]) {
            if (value > 0 && value < smallest) smallest = value;
            if (value > largest) largest = value;
        }
    }
    const [low, high] = logTimeRange(smallest, largest);
    Object.assign(view, { area, x: logScale(low, high, area.left, area.right), y: logScale(low, high, area.bottom, area.top) });
    const context = canvas.getContext('2d');
    context.setTransform(dense, 0, 0, dense, 0, 0);
    paintAxes(view, context, logTimeTicks(low, high), low, high);
    paintPoints(view, context);
}

function paintAxes({ area, x, y, a, b }, context, ticks, low, high) {
    const ink = themeColour('--soft'),
        grid = themeColour('--line');
    context.font = '12px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif';
    context.textBaseline = 'middle';
    for (const tick of ticks) {
        const px = Math.round(x(tick.at)),
            py = Math.round(y(tick.at));
        context.fillStyle = grid;
        context.fillRect(px, area.top, 1, area.bottom - area.top);
        context.fillRect(area.left, py, area.right - area.left, 1);
        context.fillStyle = ink;
        context.textAlign = 'right';
        context.fillText(tick.label, area.left - 7, py);
    }
    context.textAlign = 'center';
    for (const tick of labelled(ticks, x, 0, area.right + 14)) context.fillText(tick.label, tick.x, area.bottom + 14);
    context.fillText(`JCT under ${short(a.label)}`, (area.left + area.right) / 2, area.bottom + 34);
    context.save();
    context.translate(9, (area.top + area.bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(`JCT under ${short(b.label)}`, 0, 0);
    context.restore();
    context.strokeStyle = ink;
    context.setLineDash([4, 4]);
    context.beginPath();
    context.moveTo(x(low), y(low));
    context.lineTo(x(high), y(high));
    context.stroke();
    context.setLineDash([]);
    context.strokeStyle = themeColour('--page');
    context.lineWidth = 6;
    for (const [word, px, py] of [
        ['slower', area.left + 36, area.top + 16],
        ['faster', area.right - 30, area.bottom - 16],
    ]) {
        context.strokeText(word, px, py);
        context.fillText(word, px, py);
    }
    context.lineWidth = 1;
}

function short(label) {
    return label.length > 40 ? `${label.slice(0, 39)}…` : label;
}

function gainColours(data) {
    return { '-1': data.palette[0], 0: data.palette[6], 1: data.palette[1] };
}

function paintPoints({ data, jobs, verdict, a, b, x, y }, context) {
    const colours = gainColours(data);
    const many = jobs.length > 4000,
        size = many ? 2 : 5;
    context.globalAlpha = many ? clamp(9000 / jobs.length, 0.22, 0.6) : 0.62;
    for (const turn of [0, -1, 1]) {
        context.fillStyle = colours[turn];
        for (let i = 0; i < jobs.length; i += 1) {
            if (verdict[i] !== turn) continue;
            const px = x(a.jct[jobs[i]]),
                py = y(b.jct[jobs[i]]);
            if (many) {
                context.fillRect(px - 1, py - 1, size, size);
            } else {
                context.beginPath();
                context.arc(px, py, size / 2 + 0.6, 0, 2 * Math.PI);
                context.fill();
            }
        }
    }
    context.globalAlpha = 1;
    if (state.chosen === null || Number.isNaN(a.jct[state.chosen] + b.jct[state.chosen])) return;
    context.strokeStyle = themeColour('--ink');
    context.lineWidth = 2;
    context.beginPath();
    context.arc(x(a.jct[state.chosen]), y(b.jct[state.chosen]), 7, 0, 2 * Math.PI);
    context.stroke();
}

function nearestPoint({ jobs, a, b, x, y }, px, py) {
    let best = null,
        least = 14 ** 2;
    for (const job of jobs) {
        const distance = (x(a.jct[job]) - px) ** 2 + (y(b.jct[job]) - py) ** 2;
        if (distance < least) [best, least] = [job, distance];
    }
    return best;
}

function gainGestures(view) {
    const { canvas, data } = view;
    canvas.addEventListener('pointermove', (event) => {
        const job = nearestPoint(view, ...pointerAt(canvas, event));
        canvas.style.cursor = job === null ? 'default' : 'pointer';
        if (job === null) return hideTip();
        const { a, b } = view;
        const rows = [a, b].map((run) => [named(run.label), duration(run.jct[job])]);
        rows.push(['ratio', ratio(b.jct[job] / a.jct[job])], ['GPUs', count(data.jobs.gpus[job])]);
        return showTip(event, make('b', {}, named(jobName(data, job))), tableOf(null, rows));
    });
    canvas.addEventListener('pointerleave', hideTip);
    canvas.addEventListener('click', (event) => {
        const job = nearestPoint(view, ...pointerAt(canvas, event));
        change({ chosen: job === state.chosen ? null : job });
    });
}

function listGain(view) {
    const { data, a, b, jobs, verdict, ratios, order } = view;
    const far = (i) => (order === 'time' ? b.jct[jobs[i]] - a.jct[jobs[i]] : Math.log(ratios[i]));
    const listed = (turn) => {
        const found = [];
        for (let i = 0; i < jobs.length; i += 1) if (verdict[i] === turn) found.push(i);
        return found.sort((i, j) => turn * (far(j) - far(i))).slice(0, LISTED);
    };
    const table = (turn, title, tone) => {
        const rows = listed(turn).map((i) => {
            const job = jobs[i],
                apart = b.jct[job] - a.jct[job];
            const toned = (text) => make('span', { class: tone }, text);
            const words = `${apart < 0 ? '−' : '+'}${duration(Math.abs(apart))}`;
            const times = Number.isFinite(ratios[i]) ? ratio(ratios[i]) : '-';
            return [jobButton(data, job), duration(a.jct[job]), duration(b.jct[job]), toned(words), toned(times)];
        });
        if (!rows.length) return [make('h4', {}, title), make('p', { class: 'note' }, 'None.')];
        const whole = tableOf(['Job', 'from', 'to', 'difference', 'ratio'], rows);
        return [make('h4', {}, title), make('div', { class: 'scroll' }, whole)];
    };
    byId('gain-order').hidden = !view.verdict.some((turn) => turn);
    if (byId('gain-order').hidden) {
        byId('gain-lists').replaceChildren(make('p', { class: 'note' }, 'No job is faster or slower.'));
        return;
    }
    byId('gain-lists').replaceChildren(...table(1, 'Lost most', 'lost'), ...table(-1, 'Gained most', 'gained'));
}

function jobButton(data, job) {
    return make('button', { type: 'button', class: 'job', click: () => choose(job) }, named(jobName(data, job)));
}
