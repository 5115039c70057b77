// The position of each GPU on the floor plan: GPUs are squares in blocks, blocks of nodes are in racks, and racks flow in lines
// like words.

const PLAN = { tallest: 460, most: 64, sizes: [28, 24, 20, 18, 16, 14, 12, 10, 8, 7, 6, 5, 4, 3], coarse: [8, 6, 5, 4, 3, 2] };
// Minimum number of nodes of a cluster that is drawn node by node if it has too many GPUs.
const MANY_NODES = 1024;
// Aspect ratio of a rack: a narrow shape like a real rack, or else as wide as there is room.
const SHAPES = [1.8, Infinity];

// The plan with the largest squares that fit. A square is a GPU, or a node if there are too many GPUs.
function floorPlan(cluster, width) {
    const groups = floorGroups(cluster);
    const { first, names } = cluster.nodes;
    const gpus = Array.from(names, (_, node) => first[node + 1] - first[node]);
    const ones = gpus.map(() => 1);
    let plan = null;
    const fits = (cells, size) =>
        SHAPES.some((shape) => {
            plan = laidOut(groups, cells, size, groups.length > 1 ? shape : Infinity, width);
            plan.coarse = cells === ones;
            return plan.height <= PLAN.tallest;
        });
    if (PLAN.sizes.some((size) => fits(gpus, size))) return plan;
    if (names.length < MANY_NODES) [2, 1].some((size) => fits(gpus, size));
    else PLAN.coarse.some((size) => fits(ones, size));
    return plan;
}

// Groups of nodes that stand together: by the full path of their rack; without racks by accelerator type.
function floorGroups(cluster) {
    const { names, pool, rack } = cluster.nodes;
    const byRack = rack.names.some((name) => name);
    const labels = byRack ? rack.names : cluster.pools;
    const groups = labels.map((label) => ({ label: labels.length > 1 || byRack ? label || 'no rack' : '', nodes: [] }));
    names.forEach((_, node) => groups[byRack ? rack.code[node] : pool[node]].nodes.push(node));
    return groups;
}

// Number of columns of a node's block: slightly wider than tall, and if possible without an incomplete last row.
function blockColumns(cells, most) {
    if (cells > PLAN.most) return Math.min(Math.ceil(Math.sqrt(4 * cells)), most);
    const least = Math.ceil(Math.sqrt(cells));
    for (let columns = least; columns <= 2 * least; columns += 1) if (cells % columns === 0) return Math.min(columns, most);
    return Math.min(least, most);
}

function laidOut(groups, cells, size, shape, width) {
    const gap = size >= 5 ? 1 : 0,
        apart = size >= 12 ? 10 : size >= 5 ? 5 : cells.some((count) => count > 1) ? 3 : 1,
        nameRoom = size >= 12 ? 15 : 0, // above a node
        headed = groups.some((group) => group.label) && (size >= 5 || groups.length <= 8) ? 18 : 0;
    const pitch = size + gap;
    const blocks = cells.map((count) => {
        const columns = blockColumns(count, Math.max(Math.floor((width + gap) / pitch), 1));
        const rows = Math.ceil(count / columns);
        return { x: 0, y: 0, columns, cells: count, width: columns * pitch - gap, height: rows * pitch - gap + nameRoom };
    });
    const line = { x: 0, y: 0, height: 0 };
    const heads = [];
    for (const group of groups) {
        const inner = innerWidth(group.nodes, blocks, apart, shape, width);
        const box = flowed(group.nodes, blocks, apart, inner);
        const across = Math.max(box.width, headed ? Math.min(6 * group.label.length + 8, 70) : 0);
        if (line.x > 0 && line.x + across > width) {
            Object.assign(line, { x: 0, y: line.y + line.height + 2 * apart + 4, height: 0 });
        }
        for (const node of group.nodes) {
            blocks[node].x += line.x;
            blocks[node].y += line.y + headed + nameRoom;
        }
        heads.push({ label: headed ? group.label : '', x: line.x, y: line.y, width: across });
        line.height = Math.max(line.height, box.height + headed);
        line.x += across + 3 * apart + 4;
    }
    return { blocks, heads, size, pitch, nameRoom, height: line.y + line.height };
}

// Width that gives a rack this shape, with about the same number of blocks in each line.
function innerWidth(nodes, blocks, apart, shape, width) {
    const area = nodes.reduce((sum, node) => sum + (blocks[node].width + apart) * (blocks[node].height + apart), 0);
    const widest = nodes.reduce((most, node) => Math.max(most, blocks[node].width), 0);
    const columns = Math.floor((clamp(Math.sqrt(area * shape), widest, width) + apart) / (widest + apart));
    const lines = Math.ceil(nodes.length / Math.max(columns, 1));
    return Math.ceil(nodes.length / lines) * (widest + apart) - apart;
}

function flowed(nodes, blocks, apart, width) {
    let x = 0,
        y = 0,
        tall = 0,
        right = 0;
    for (const node of nodes) {
        const block = blocks[node];
        if (x > 0 && x + block.width > width + 0.5) {
            x = 0;
            y += tall + apart;
            tall = 0;
        }
        Object.assign(block, { x, y });
        tall = Math.max(tall, block.height);
        right = Math.max(right, x + block.width);
        x += block.width + apart;
    }
    return { width: right, height: y + tall };
}

// Left and top of a cell of a node.
function cellAt(plan, node, cell) {
    const { x, y, columns } = plan.blocks[node];
    return [x + (cell % columns) * plan.pitch, y + Math.floor(cell / columns) * plan.pitch];
}

// The node and the cell at a point, including the gaps between cells; null if there is none.
function cellUnder(plan, px, py) {
    for (let node = 0; node < plan.blocks.length; node += 1) {
        const { x, y, columns, cells, width, height } = plan.blocks[node];
        if (px < x - 1 || px > x + width + 1 || py < y - 1 || py > y + height - plan.nameRoom + 1) continue;
        const cell =
            clamp(Math.floor((py - y) / plan.pitch), 0, Math.ceil(cells / columns) - 1) * columns +
            clamp(Math.floor((px - x) / plan.pitch), 0, columns - 1);
        return cell < cells ? { node, cell } : null;
    }
    return null;
}
