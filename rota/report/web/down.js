// Outages of nodes, hatched on the map above the jobs. Even a short one is visible in a long run.

const HATCH = { every: 6, wide: 1.6 };

// Left, top, right and bottom of an outage in pixels of the map; null if it is not visible.
function outageBox({ area, run }, i) {
    const { node, start, end } = run.outages;
    const { first } = run.cluster.nodes;
    const width = Math.round((area.right - area.left) * area.dense),
        height = Math.round((area.bottom - area.top) * area.dense);
    const across = linearScale(state.from, state.to, 0, width),
        down = linearScale(state.top * run.cluster.gpus, state.bottom * run.cluster.gpus, 0, height);
    const left = Math.round(across(start[i])),
        top = Math.round(down(first[node[i]]));
    const right = Math.max(Math.round(across(end[i])), left + 1),
        bottom = Math.max(Math.round(down(first[node[i] + 1])), top + 1);
    if (right <= 0 || left >= width || bottom <= 0 || top >= height) return null;
    return [Math.max(left, 0), Math.max(top, 0), Math.min(right, width), Math.min(bottom, height)];
}

function paintOutages(map, pixels, width) {
    const ground = pixelOfHex(themeColour('--down')),
        stroke = pixelOfHex(themeColour('--hatch'));
    const every = Math.round(HATCH.every * map.area.dense),
        wide = Math.round(HATCH.wide * map.area.dense);
    for (let i = 0; i < map.run.outages.node.length; i += 1) {
        const box = outageBox(map, i);
        if (!box) continue;
        const [left, top, right, bottom] = box;
        for (let y = top; y < bottom; y += 1) {
            for (let x = left; x < right; x += 1) pixels[y * width + x] = (x + y) % every < wide ? stroke : ground;
        }
    }
}

// Index of the outage that is drawn at this place of the canvas; -1 if there is none.
function outageAt(map, px, py) {
    const x = Math.floor((px - map.area.left) * map.area.dense),
        y = Math.floor((py - map.area.top) * map.area.dense);
    for (let i = map.run.outages.node.length - 1; i >= 0; i -= 1) {
        const box = outageBox(map, i);
        if (box && x >= box[0] && x < box[2] && y >= box[1] && y < box[3]) return i;
    }
    return -1;
}

function outageWords(run, i) {
    const { node, start, end } = run.outages;
    const { names, pool } = run.cluster.nodes;
    const seconds = end[i] - start[i];
    const step = seconds >= 10 * MINUTE ? MINUTE : seconds >= 10 ? SECOND : 0.01;
    const [from, to] = [start[i], end[i]].map((at) => elapsed(Math.max(at, 0), step));
    const title = make('b', {}, 'node ', named(names[node[i]]), ` down ${from} to ${to}`);
    return [title, `${run.cluster.pools[pool[node[i]]]}, for ${duration(seconds)}; times since the first submission`];
}

function downEntry() {
    return make('span', { class: 'entry' }, make('span', { class: 'swatch down' }), 'hatched: the node was down');
}
