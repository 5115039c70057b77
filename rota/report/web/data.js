// The data of the page: JSON with large arrays packed, unpacked once into typed arrays.

const TYPES = { f64: Float64Array, f32: Float32Array, u32: Uint32Array, u16: Uint16Array, u8: Uint8Array };

async function unpackedBytes(text) {
    const packed = atob(text);
    const bytes = new Uint8Array(packed.length);
    for (let i = 0; i < packed.length; i += 1) bytes[i] = packed.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
    return new Uint8Array(await new Response(stream).arrayBuffer());
}

// All first bytes of the numbers come first, then all second bytes: adjacent equal bytes compress better.
async function unpackedArray(packed) {
    const planes = await unpackedBytes(packed.data);
    const Type = TYPES[packed.type];
    const size = Type.BYTES_PER_ELEMENT,
        length = planes.length / size;
    const bytes = new Uint8Array(planes.length);
    for (let plane = 0; plane < size; plane += 1) {
        for (let i = 0, from = plane * length; i < length; i += 1) bytes[i * size + plane] = planes[from + i];
    }
    return new Type(bytes.buffer);
}

async function unpackedText(packed) {
    return JSON.parse(new TextDecoder().decode(await unpackedBytes(packed.data)));
}

// Unpacks everything that is packed in a value, at any depth.
async function unpacked(value) {
    if (Array.isArray(value)) return Promise.all(value.map(unpacked));
    if (value === null || typeof value !== 'object') return value;
    if (value.type === 'text') return unpackedText(value);
    if (value.type in TYPES) return unpackedArray(value);
    const entries = Object.entries(value).map(async ([name, inner]) => [name, await unpacked(inner)]);
    return Object.fromEntries(await Promise.all(entries));
}

// Unpacks the runs of one seed, with the data that all seeds share. Other seeds stay packed.
async function loadSeed(number) {
    const { seeds, jobs, ...shared } = JSON.parse(byId('data').textContent);
    const data = await unpacked({ ...shared, ...seeds[number], jobs: jobs[seeds[number].jobs] });
    const { submitted } = data.jobs;
    data.runs.forEach((run, index) => {
        run.jct = run.finished.map((at, job) => at - submitted[job]);
        // Only rounding can make this negative.
        run.wait = run.jct.map((jct, job) => (Number.isNaN(jct) ? NaN : Math.max(jct - run.held[job], 0)));
        run.cluster = data.clusters[run.cluster];
        run.scores = run.scores === null ? null : data.scores[run.scores];
        Object.assign(run, {
            index,
            colour: data.palette[index % data.palette.length],
            dash: data.dashes[Math.floor(index / 4) % data.dashes.length],
            total: totalBusy(run, data.bins),
        });
    });
    return data;
}

function seedNames() {
    return JSON.parse(byId('data').textContent).seeds.map(({ seed }) => seed);
}

function totalBusy(run, bins) {
    const total = new Float32Array(bins);
    run.busy.forEach((value, i) => {
        total[i % bins] += value;
    });
    return total;
}

function bestRun(data) {
    return data.runs.reduce((a, b) => ((b.mean_jct ?? Infinity) < (a.mean_jct ?? Infinity) ? b : a));
}

function runOptions(data) {
    return data.runs.map((run) => make('option', { value: run.index }, run.label));
}

function sortedKnown(values) {
    return values.filter((value) => !Number.isNaN(value)).sort();
}

// State of the page: the ranges of time and of map rows, the followed job, and the hidden policies.
const state = { from: 0, to: 1, end: 1, top: 0, bottom: 1, chosen: null, hidden: new Set() };
const listeners = [];
let waiting = null;

function onChange(listener) {
    listeners.push(listener);
}

// Resets the state before other data is shown: no listeners, the whole time, no followed job.
function resetState(data) {
    listeners.length = 0;
    Object.assign(state, { from: 0, to: data.end, end: data.end, top: 0, bottom: 1, chosen: null });
}

// Listeners are called once per frame, with all changes since the last one.
function change(what) {
    Object.assign(state, what);
    if (waiting) {
        Object.assign(waiting, what);
        return;
    }
    waiting = { ...what };
    requestAnimationFrame(() => {
        const changed = waiting;
        waiting = null;
        for (const listener of listeners) listener(changed);
    });
}

function setTime(from, to) {
    const least = state.end / 20000;
    const width = clamp(to - from, least, state.end);
    const start = clamp(from, 0, state.end - width);
    change({ from: start, to: start + width });
}

function zoomTime(factor, at) {
    const middle = at === undefined ? (state.from + state.to) / 2 : at;
    setTime(middle - (middle - state.from) * factor, middle + (state.to - middle) * factor);
}

function moveTime(share) {
    const by = (state.to - state.from) * share;
    const width = state.to - state.from;
    const start = clamp(state.from + by, 0, state.end - width);
    change({ from: start, to: start + width });
}

function setRows(top, bottom) {
    const height = clamp(bottom - top, 1 / 2000, 1);
    const start = clamp(top, 0, 1 - height);
    change({ top: start, bottom: start + height });
}

function zoomRows(factor, at) {
    const middle = at === undefined ? (state.top + state.bottom) / 2 : at;
    setRows(middle - (middle - state.top) * factor, middle + (state.bottom - middle) * factor);
}

function choose(job) {
    change({ chosen: job === state.chosen ? null : job });
}
