// Colours of jobs on the map: by job, or by what jobs have in common. They are integers, ready to be written into pixels.

// Converts from OKLCH, in which equal numbers look equally light. A pixel is 0xAABBGGRR.
function pixelOf(lightness, chroma, hue) {
    const a = chroma * Math.cos((hue * Math.PI) / 180),
        b = chroma * Math.sin((hue * Math.PI) / 180);
    const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
    const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
    const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
    const linear = [
        4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
    ];
    const [red, green, blue] = linear.map((value) => {
        const clipped = clamp(value, 0, 1);
        return Math.round(255 * (clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * clipped ** (1 / 2.4) - 0.055));
    });
    return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

function pixelOfHex(hex) {
    const value = parseInt(hex.slice(1), 16);
    return ((255 << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}

function hexOfPixel(pixel) {
    const value = ((pixel & 255) << 16) | (pixel & 0xff00) | ((pixel >> 16) & 255);
    return `#${value.toString(16).padStart(6, '0')}`;
}

function mixed(pixel, other, share) {
    const part = (shift) => Math.round(((pixel >>> shift) & 255) * share + ((other >>> shift) & 255) * (1 - share));
    return ((255 << 24) | (part(16) << 16) | (part(8) << 8) | part(0)) >>> 0;
}

const JOB_TINTS = 36;

// Neighbours in the trace often run next to each other, so the hue advances by the golden angle from job to job.
function jobTints(dark) {
    return Uint32Array.from({ length: JOB_TINTS }, (_, i) => {
        const light = [0.66, 0.76, 0.58][i % 3] - (dark ? 0.06 : 0);
        return pixelOf(light, 0.098, (i * 137.508) % 360);
    });
}

// One entry per colouring: its label, a function that returns a pixel per job, and the entries of its legend.
function colourings(data) {
    const { jobs } = data;
    const found = [{ key: 'job', label: 'job', paint: (dark) => byJob(jobs.gpus.length, dark), legend: () => [] }];
    for (const [key, label] of [
        ['tenant', 'tenant'],
        ['profile', 'profile'],
        ['user', 'user'],
    ]) {
        if (jobs[key].names.length > 1) found.push(byGroup(data, key, label));
    }
    found.push(bySize(jobs));
    return found;
}

function byJob(length, dark) {
    const tints = jobTints(dark),
        pixels = new Uint32Array(length);
    for (let job = 0; job < length; job += 1) pixels[job] = tints[job % JOB_TINTS];
    return pixels;
}

// The largest groups have their own colours, and all others share one.
function byGroup(data, key, label) {
    const { names, code } = data.jobs[key];
    const sizes = new Uint32Array(names.length);
    for (const group of code) sizes[group] += 1;
    const order = Array.from(sizes.keys())
        .sort((a, b) => sizes[b] - sizes[a])
        .slice(0, data.palette.length - 1);
    const rest = pixelOfHex(data.palette[data.palette.length - 2]);
    const colours = data.palette.filter((_, i) => i !== data.palette.length - 2).map(pixelOfHex);
    const table = new Uint32Array(names.length).fill(rest);
    order.forEach((group, i) => {
        table[group] = colours[i];
    });
    const entries = order.map((group) => [hexOfPixel(table[group]), names[group] || 'none', sizes[group]]);
    const others = code.length - order.reduce((sum, group) => sum + sizes[group], 0);
    if (others) entries.push([hexOfPixel(rest), 'all others', others]);
    return { key, label, paint: () => Uint32Array.from(code, (group) => table[group]), legend: () => entries };
}

// Light to dark blue by number of GPUs, one shade per power of two; reversed on dark pages.
function bySize(jobs) {
    const power = (gpus) => Math.max(Math.min(Math.floor(Math.log2(gpus)), 10), 0);
    const largest = jobs.gpus.reduce((a, b) => Math.max(a, b), 1),
        steps = power(largest);
    const shade = (gpus, dark) => {
        const share = steps ? power(gpus) / steps : 0;
        return pixelOf(dark ? 0.5 + 0.36 * share : 0.82 - 0.42 * share, 0.05 + 0.07 * share, 250 - 8 * share);
    };
    const legend = (dark) =>
        Array.from({ length: steps + 1 }, (_, i) => {
            const next = i === steps ? largest : 2 ** (i + 1) - 1;
            return [hexOfPixel(shade(2 ** i, dark)), next > 2 ** i ? `${2 ** i} to ${next} GPUs` : plural(2 ** i, 'GPU'), null];
        });
    return {
        key: 'gpus',
        label: 'number of GPUs',
        paint: (dark) => Uint32Array.from(jobs.gpus, (gpus) => shade(gpus, dark)),
        legend,
    };
}
