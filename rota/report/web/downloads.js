// The data behind each figure, as a file of comma-separated values. It is made on request, from the page itself.

// Text from other people must not be a formula in the program that opens the file, so it gets a leading quote.
function csvCell(value) {
    if (value === null || value === undefined || Number.isNaN(value)) return '';
    if (typeof value === 'number') return String(value);
    const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csvOf(heads, rows) {
    return [heads, ...rows].map((cells) => Array.from(cells, csvCell).join(',')).join('\n') + '\n';
}

function save(name, text) {
    const url = URL.createObjectURL(new Blob([text], { type: 'text/csv' }));
    const link = make('a', { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
}

// Downloads of figures that depend on the seed. The table of results does not.
function setUpDownloads(data) {
    for (const one of document.querySelectorAll('.live [data-csv]')) {
        one.addEventListener('click', () => save(`rota-${one.dataset.csv}.csv`, csvOf(...TABLES[one.dataset.csv](data))));
    }
}

function setUpResultsDownload() {
    for (const one of document.querySelectorAll('[data-csv="results"]')) {
        one.hidden = false;
        one.addEventListener('click', () => save('rota-results.csv', csvOf(...resultsTable())));
    }
}

function resultsTable() {
    const table = document.querySelector('.results');
    const heads = Array.from(table.tHead.rows[0].cells, (cell) => cell.querySelector('.sort').textContent);
    const value = ({ dataset }, i) => (i === 0 ? dataset.value : dataset.value === undefined ? null : Number(dataset.value));
    return [heads, Array.from(table.tBodies[0].rows, (row) => Array.from(row.cells, value))];
}

// Name of a figure -> function that returns the header and the rows of its file.
const TABLES = {
    times: (data) => [
        ['policy', 'job', 'name', 'jct_seconds', 'queueing_seconds'],
        data.runs.flatMap((run) => Array.from(run.jct, (jct, job) => [run.label, job, jobName(data, job), jct, run.wait[job]])),
    ],
    load: (data) => {
        const pools = (run) =>
            run.cluster.pools.map((pool, i) => [`${run.label} busy ${pool}`, (bin) => run.busy[i * data.bins + bin]]);
        const columns = data.runs.flatMap((run) => [...pools(run), [`${run.label} waiting`, (bin) => run.queue[bin]]]);
        return overBins(data, columns);
    },
    where: (data) => [
        ['policy', 'job', 'name', 'first_gpu', 'gpus', 'start_s', 'end_s'],
        data.runs.flatMap((run) =>
            Array.from(run.map.job, (job, i) => {
                const each = run.map.gpus_per_row;
                const place = [run.map.first_row[i] * each, run.map.rows[i] * each];
                return [run.label, job, jobName(data, job), ...place, run.map.start[i], run.map.end[i]];
            }),
        ),
    ],
    floor: (data) => {
        const classes = [...new Set(data.runs.flatMap((run) => (run.scores ? run.scores.classes : [])))];
        const heads = ['policy', 'gpu', 'node', 'rack', 'accelerator', 'busy_share', 'jobs'];
        const rows = data.runs.flatMap((run) => Array.from({ length: run.cluster.gpus }, (_, gpu) => gpuRow(run, gpu, classes)));
        return [[...heads, ...classes.map((name) => `score ${name}`)], rows];
    },
    spans: (data) => {
        const names = Object.keys(data.runs[0].placement.spread);
        const row = (run) => [run.label, ...names.map((name) => run.placement.spread[name]), movesOf(run)];
        return [['policy', ...names, 'moves'], data.runs.map(row)];
    },
    scattered: (data) => {
        const columns = data.runs.map((run) => [run.label, (bin) => run.placement.scattered[bin]]);
        return overBins(data, columns);
    },
    moves: (data) => {
        const columns = data.runs.map((run) => [run.label, (bin) => run.movesUpTo[bin + 1]]);
        return overBins(data, columns);
    },
    gain: (data) => {
        const [a, b] = ['gain-from', 'gain-to'].map((id) => data.runs[Number(byId(id).value)]);
        const rows = Array.from(a.jct, (jct, job) => [job, jobName(data, job), jct, b.jct[job], jct > 0 ? b.jct[job] / jct : null]);
        return [['job', 'name', `jct_seconds ${a.label}`, `jct_seconds ${b.label}`, 'ratio'], rows];
    },
    groups: (data) => {
        const key = byId('groups-key').value;
        const names = GROUP_COLUMNS.map((column) => column.key);
        const rows = data.runs.flatMap((run) =>
            groupRows(data, key, run).map((row) => [run.label, row.name, ...names.map((name) => row[name])]),
        );
        return [['policy', key, ...names], rows];
    },
    jobs: (data) => {
        const { jobs } = data;
        const group = (key, job) => jobs[key].names[jobs[key].code[job]];
        const figures = [
            ['first_run_s', (run, job) => run.first[job]],
            ['finished_s', (run, job) => run.finished[job]],
            ['jct_seconds', (run, job) => run.jct[job]],
            ['queueing_seconds', (run, job) => run.wait[job]],
            ['gpu_seconds', (run, job) => run.gpu_seconds[job]],
            ['suspensions', (run, job) => run.suspensions[job]],
            ['cost_dollars', (run, job) => (run.cost ? run.cost[job] : null)],
        ];
        const columns = data.runs.flatMap((run) => figures.map(([name, of]) => [`${name} ${run.label}`, (job) => of(run, job)]));
        const rows = Array.from(jobs.gpus, (gpus, job) => {
            const groups = ['tenant', 'user', 'profile'].map((key) => group(key, job));
            return [job, jobName(data, job), gpus, ...groups, jobs.submitted[job], ...columns.map(([, of]) => of(job))];
        });
        const heads = ['job', 'name', 'gpus', 'tenant', 'user', 'profile', 'submitted_s'];
        return [[...heads, ...columns.map(([name]) => name)], rows];
    },
};

// Means over the time bins of the page, each with its start.
function overBins(data, columns) {
    const row = (bin) => [(bin * state.end) / data.bins, ...columns.map(([, of]) => of(bin))];
    const rows = Array.from({ length: data.bins }, (_, bin) => row(bin));
    return [['start_s', ...columns.map(([name]) => name)], rows];
}

function gpuRow(run, gpu, classes) {
    const node = nodeOf(run.cluster, gpu);
    const { names, pool, rack } = run.cluster.nodes;
    const scores = classes.map((name) => {
        const row = run.scores ? run.scores.classes.indexOf(name) : -1;
        return row < 0 ? null : run.scores.values[row * run.cluster.gpus + gpu];
    });
    const { busy, jobs } = run.placement;
    const place = [names[node], rack.names[rack.code[node]], run.cluster.pools[pool[node]]];
    return [run.label, gpu, ...place, busy[gpu] / 10000, jobs[gpu], ...scores];
}
