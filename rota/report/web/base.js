// Helpers for all parts of the page: elements, formatted numbers, scales and ticks.

const SECOND = 1,
    MINUTE = 60,
    HOUR = 3600,
    DAY = 86400;
const SVG = 'http://www.w3.org/2000/svg';

function byId(id) {
    return document.getElementById(id);
}

// Names of jobs and policies come from other people, so children that are strings become text, never markup.
function furnish(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
        if (typeof value === 'function') node.addEventListener(name, value);
        else if (value !== undefined && value !== null) node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
}

function make(name, attributes, ...children) {
    return furnish(document.createElement(name), attributes, children);
}

function draw(name, attributes, ...children) {
    return furnish(document.createElementNS(SVG, name), attributes, children);
}

// An isolated name: right-to-left letters in it must not reverse the text next to it.
function named(text) {
    return make('bdi', { title: text }, text);
}

function button(label, title, act) {
    return make('button', { type: 'button', 'aria-label': title, title, click: act }, label);
}

// Headings and cells are strings or elements.
function tableOf(heads, rows) {
    const row = (kind, cells) => make('tr', {}, ...cells.map((cell) => make(kind, {}, cell)));
    const body = make('tbody', {}, ...rows.map((cells) => row('td', cells)));
    return heads ? make('table', {}, make('thead', {}, row('th', heads)), body) : make('table', {}, body);
}

// Connects buttons that exclude each other: a click presses one and releases the others.
function exclusive(buttons, act) {
    for (const one of buttons) {
        one.addEventListener('click', () => {
            for (const other of buttons) other.setAttribute('aria-pressed', other === one);
            act(one);
        });
    }
}

function clamp(value, low, high) {
    return Math.min(Math.max(value, low), high);
}

// Formats like the table that Python wrote.
function duration(seconds) {
    if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return '-';
    for (const [size, unit] of [
        [DAY, 'd'],
        [HOUR, 'h'],
        [MINUTE, 'm'],
    ]) {
        if (seconds >= 2 * size) return threeDigits(seconds / size) + unit;
    }
    return String(Number(seconds.toPrecision(3))) + 's';
}

function threeDigits(value) {
    return value >= 999.5 ? count(value) : value.toPrecision(3);
}

function count(value) {
    return Math.round(value).toLocaleString('en');
}

function amount(value) {
    return value >= 100 || Number.isInteger(value) ? count(value) : value.toFixed(1);
}

function plural(number, word) {
    return `${count(number)} ${word}${number === 1 ? '' : 's'}`;
}

function ratio(value) {
    if (value >= 100) return `x${count(value)}`;
    if (value >= 10) return `x${value.toFixed(1)}`;
    return `x${value >= 0.1 || value === 0 ? value.toFixed(2) : value.toPrecision(2)}`;
}

// The mean JCT of a run, and its factor over the bound.
function beside(run) {
    const times = run.bound && run.mean_jct !== null ? ` (${(run.mean_jct / run.bound).toFixed(2)}x the bound)` : '';
    return duration(run.mean_jct) + times;
}

// Scales: a function from values to pixels, with its inverse.

function linearScale(low, high, begin, end) {
    const scale = (value) => begin + ((value - low) / (high - low)) * (end - begin);
    scale.back = (pixel) => low + ((pixel - begin) / (end - begin)) * (high - low);
    return scale;
}

function logScale(low, high, begin, end) {
    const width = Math.log(high / low);
    const scale = (value) => begin + (Math.log(clamp(value, low, high) / low) / width) * (end - begin);
    scale.back = (pixel) => low * Math.exp(((pixel - begin) / (end - begin)) * width);
    return scale;
}

// Positions and labels of ticks.

function niceStep(value) {
    if (!(value > 0)) return 1;
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= value * (1 - 1e-9));
}

function countTicks(most, wanted) {
    const step = Math.max(niceStep(most / wanted), 1);
    return multiples(0, most, step).map((at) => ({ at, label: count(at) }));
}

function multiples(low, high, step) {
    const found = [];
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high * (1 + 1e-12); n += 1) found.push(n * step + 0); // plus 0: no -0
    return found;
}

const TIME_STEPS = [
    ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
    ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
    ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
];

function timeStep(rough) {
    return rough < SECOND ? niceStep(rough) : TIME_STEPS.find((known) => known >= rough) || DAY * niceStep(rough / DAY);
}

// At least three ticks, since one or two show too little of the scale.
function timeTicks(low, high, wanted) {
    let rough = (high - low) / wanted;
    while (multiples(low, high, timeStep(rough)).length < 3 && rough > (high - low) / 12) rough /= 1.5;
    const fit = timeStep(rough);
    return multiples(low, high, fit).map((at) => ({ at, label: elapsed(at, fit) }));
}

// Approximate width of a label at 12 pixels.
function labelWidth(label) {
    return 6.8 * label.length;
}

// Ticks whose labels have room next to each other, each with the position of its label inside the drawing.
function labelled(ticks, place, from, to) {
    const found = [];
    let end = -Infinity;
    for (const tick of ticks) {
        const half = labelWidth(tick.label) / 2;
        const x = clamp(place(tick.at), from + half, to - half);
        if (x - half < end + 8) continue;
        found.push({ ...tick, x });
        end = x + half;
    }
    return found;
}

// Time since the start, as precise as the distance between ticks requires.
function elapsed(seconds, step) {
    if (seconds === 0) return '0';
    if (step >= DAY) return `${count(seconds / DAY)} d`;
    const days = Math.floor(seconds / DAY + 1e-9);
    const rest = seconds - days * DAY;
    const ahead = days ? `${count(days)}d ` : '';
    if (step >= HOUR) return ahead && rest < 1 ? ahead.trim() : `${ahead}${Math.round(rest / HOUR)}${ahead ? 'h' : ' h'}`;
    const pad = (value) => String(Math.floor(value + 1e-9)).padStart(2, '0');
    const clock = `${ahead}${Math.floor(rest / HOUR + 1e-9)}:${pad((rest % HOUR) / MINUTE)}`;
    if (step >= MINUTE) return clock;
    const seconds_ = rest % MINUTE;
    return `${clock}:${step >= SECOND ? pad(seconds_) : seconds_.toFixed(2).padStart(5, '0')}`;
}

const LOG_TIMES = [
    0.001,
    0.01,
    0.1,
    1,
    10,
    MINUTE,
    10 * MINUTE,
    HOUR,
    10 * HOUR,
    DAY,
    10 * DAY,
    100 * DAY,
    1000 * DAY,
    10000 * DAY,
];

// For ranges with few of the times above.
const FINE_LOG_TIMES = [
    ...[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30],
    ...[1, 2, 5, 10, 20, 30].map((n) => n * MINUTE),
    ...[1, 2, 5, 10].map((n) => n * HOUR),
    ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000].map((n) => n * DAY),
];

function logTimeTicks(low, high) {
    const inside = (times) => times.filter((at) => at >= low * (1 - 1e-9) && at <= high);
    const label = (at) => {
        if (at < MINUTE) return `${at} s`;
        if (at < HOUR) return `${at / MINUTE} min`;
        return at < DAY ? `${at / HOUR} h` : `${count(at / DAY)} d`;
    };
    const coarse = inside(LOG_TIMES);
    return (coarse.length < 3 ? inside(FINE_LOG_TIMES) : coarse).map((at) => ({ at, label: label(at) }));
}

// Slightly more than the range of values, and at least a factor of ten.
function logTimeRange(smallest, largest) {
    if (!(largest > 0)) return [1, 10];
    const low = Math.max(smallest * 0.8, LOG_TIMES[0]);
    return [low, Math.max(largest * 1.08, low * 10)];
}

// Number of values in a sorted array that are not above this one.
function upTo(sorted, value) {
    let low = 0,
        high = sorted.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (sorted[middle] <= value) low = middle + 1;
        else high = middle;
    }
    return low;
}

// Interpolated between jobs, like NumPy's quantiles and those of the table.
function quantile(sorted, share) {
    if (!sorted.length) return NaN;
    const at = share * (sorted.length - 1),
        low = Math.floor(at);
    const next = sorted[Math.min(low + 1, sorted.length - 1)];
    return sorted[low] + (next - sorted[low]) * (at - low);
}
