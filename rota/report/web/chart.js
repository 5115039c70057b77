// Line charts as SVG: a frame with axes, curves, a legend, and the gestures that select a range of time.

const MARGIN = { left: 58, right: 16, top: 14, bottom: 44 };
// Charts over time and the map begin at the same place, so that equal times are below each other.
const TIME_LEFT = 84;

// Redraws a chart when the width of its place changes.
function onWidth(host, render) {
    let width = 0;
    new ResizeObserver(([entry]) => {
        const now = Math.floor(entry.contentRect.width);
        if (now > 0 && now !== width) {
            width = now;
            render();
        }
    }).observe(host);
}

function plotArea(host, height, left = MARGIN.left) {
    const width = Math.max(host.clientWidth, 280);
    return { width, height, left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
}

function frame(area, { x, y, xTicks, yTicks, xTitle, yTitle, label }) {
    const { width, height, left, right, top, bottom } = area;
    const svg = draw('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label, tabindex: 0 });
    svg.dataset.plot = JSON.stringify([left, top, right, bottom]);
    for (const tick of yTicks) {
        const at = y(tick.at);
        svg.append(
            draw('line', { class: 'grid', x1: left, x2: right, y1: at, y2: at }),
            draw('text', { x: left - 8, y: at + 4, 'text-anchor': 'end' }, tick.label),
        );
    }
    for (const tick of xTicks) {
        const at = x(tick.at);
        svg.append(draw('line', { class: 'grid', x1: at, x2: at, y1: top, y2: bottom + 4 }));
    }
    for (const tick of labelled(xTicks, x, 0, width)) {
        svg.append(draw('text', { class: 'tick', x: tick.x, y: bottom + 19, 'text-anchor': 'middle' }, tick.label));
    }
    const middle = (top + bottom) / 2;
    svg.append(
        draw('line', { class: 'axis', x1: left, x2: right, y1: bottom, y2: bottom }),
        draw('text', { x: (left + right) / 2, y: bottom + 38, 'text-anchor': 'middle' }, xTitle),
        draw('text', { transform: `translate(13 ${middle}) rotate(-90)`, 'text-anchor': 'middle' }, yTitle),
    );
    return svg;
}

// Replaces a chart, which is redrawn for every change. If it had the keyboard focus, it keeps it.
function swap(host, svg) {
    const used = host.contains(document.activeElement);
    host.replaceChildren(svg);
    if (used) svg.focus({ preventScroll: true });
}

function strokeOf(run) {
    return run.dash ? { stroke: run.colour, 'stroke-dasharray': run.dash } : { stroke: run.colour };
}

// A path that keeps each value until the next x: ys[i] holds from xs[i] to xs[i + 1].
function stepPath(xs, ys) {
    let path = `M${xs[0].toFixed(1)} ${ys[0].toFixed(1)}`,
        last = ys[0];
    for (let i = 1; i < ys.length; i += 1) {
        if (Math.abs(ys[i] - last) < 0.05) continue;
        last = ys[i];
        path += `H${xs[i].toFixed(1)}V${last.toFixed(1)}`;
    }
    return `${path}H${xs[xs.length - 1].toFixed(1)}`;
}

// A vertical line with a label on the side that has more room; the short label if the long one does not fit.
function verticalMark(area, at, words, brief) {
    const late = at > (area.left + area.right) / 2;
    const room = (late ? at - area.left : area.right - at) - 10;
    const label = labelWidth(words) <= room ? words : brief;
    return draw(
        'g',
        {},
        draw('line', { class: 'mark', x1: at, x2: at, y1: area.top, y2: area.bottom }),
        draw('text', { class: 'halo', x: at + (late ? -7 : 7), y: area.top + 12, 'text-anchor': late ? 'end' : 'start' }, label),
    );
}

// One entry per policy. A click hides the policy in every chart with lines.
function runLegend(host, runs, note) {
    host.replaceChildren(
        ...runs.map((run) => {
            const line = draw(
                'svg',
                { 'aria-hidden': 'true' },
                draw('line', { x1: 0, x2: 24, y1: 5, y2: 5, 'stroke-width': 3, ...strokeOf(run) }),
            );
            const shown = !state.hidden.has(run.index);
            const toggle = () => {
                const hidden = new Set(state.hidden);
                if (!hidden.delete(run.index)) hidden.add(run.index);
                change({ hidden });
            };
            return make(
                'button',
                { type: 'button', 'aria-pressed': shown, click: toggle },
                line,
                named(run.label),
                note ? make('span', {}, note(run)) : null,
            );
        }),
    );
}

function shownRuns(data) {
    const shown = data.runs.filter((run) => !state.hidden.has(run.index));
    return shown.length ? shown : data.runs;
}

function pointerAt(node, event) {
    const box = node.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
}

// Whether the wheel is meant for a chart. It scrolls the page until the chart was clicked or Ctrl is held, so the page does not
// stop at its charts.
function wheelMeant(node, event) {
    return event.ctrlKey || event.metaKey || document.activeElement === node;
}

function timeWheel(node, timeAt) {
    node.addEventListener(
        'wheel',
        (event) => {
            if (!wheelMeant(node, event)) return;
            event.preventDefault();
            if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) moveTime(event.deltaX / 1000);
            else if (event.shiftKey) zoomRows(Math.exp(event.deltaY / 400));
            else zoomTime(Math.exp(event.deltaY / 400), timeAt(event));
        },
        { passive: false },
    );
}

const TIME_KEYS = {
    ArrowLeft: () => moveTime(-0.2),
    ArrowRight: () => moveTime(0.2),
    '+': () => zoomTime(0.5),
    '=': () => zoomTime(0.5),
    '-': () => zoomTime(2),
    0: () => resetRange(),
    Home: () => resetRange(),
};

function resetRange() {
    change({ from: 0, to: state.end, top: 0, bottom: 1 });
}

function timeKeys(node, more) {
    const keys = { ...TIME_KEYS, ...more };
    node.addEventListener('keydown', (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
        event.preventDefault();
        keys[event.key]();
    });
}

function percentiles(runs, values, host) {
    const shares = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1];
    const heads = ['Policy', ...shares.map((share) => (share === 1 ? 'longest' : `p${share * 100}`))];
    const rows = runs.map((run, i) => [named(run.label), ...shares.map((share) => duration(quantile(values[i], share)))]);
    host.replaceChildren(tableOf(heads, rows));
}
