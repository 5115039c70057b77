// Results of each tenant and each user: jobs, times, GPU time and, if prices are known, dollars.

const MOST_GROUPS = 20;

function setUpGroups(data) {
    const keys = ['tenant', 'user'].filter((key) => data.jobs[key].names.some((name) => name));
    const key = byId('groups-key'),
        run = byId('groups-run');
    byId('groups').hidden = !keys.length;
    for (const link of document.querySelectorAll('nav a[href="#groups"]')) link.hidden = !keys.length;
    if (!keys.length) return;
    key.append(...keys.map((name) => make('option', { value: name }, name)));
    key.closest('label').hidden = keys.length < 2;
    run.append(...runOptions(data));
    run.value = bestRun(data).index;
    run.closest('label').hidden = data.runs.length < 2;
    let all = false;
    const render = () => {
        const rows = groupRows(data, key.value, data.runs[Number(run.value)]);
        const shown = all ? rows : rows.slice(0, MOST_GROUPS);
        const columns = GROUP_COLUMNS.filter((column) => column.has(data));
        const heads = [key.value === 'user' ? 'User' : 'Tenant', ...columns.map(({ head }) => head)];
        const cells = shown.map((row) => [named(row.name || '(none)'), ...columns.map((column) => column.cell(row))]);
        byId('groups-table').replaceChildren(...tableOf(heads, cells).childNodes);
        byId('groups-lead').textContent = `By GPU time, the most first; all times are of jobs that finished.${data.about}`;
        byId('groups-count').textContent = `${count(shown.length)} of ${plural(rows.length, key.value)}`;
        byId('groups-more').hidden = shown.length === rows.length;
    };
    for (const select of [key, run]) select.addEventListener('change', render);
    byId('groups-more').addEventListener('click', () => {
        all = true;
        render();
    });
    render();
    hintMore(byId('groups-table'));
}

const always = () => true;
const GROUP_COLUMNS = [
    { key: 'jobs', head: 'Jobs', has: always, cell: (row) => count(row.jobs) },
    { key: 'finished', head: 'Finished', has: someUnfinished, cell: (row) => count(row.finished) },
    { key: 'mean_jct_seconds', head: 'Mean JCT', has: always, cell: (row) => duration(row.mean_jct_seconds) },
    { key: 'mean_queueing_seconds', head: 'Mean queueing', has: always, cell: (row) => duration(row.mean_queueing_seconds) },
    {
        key: 'jct_ratio',
        head: 'JCT vs the first policy',
        has: (data) => data.runs.length > 1,
        cell: (row) => (row.jct_ratio === null ? '-' : ratio(row.jct_ratio)),
    },
    { key: 'gpu_hours', head: 'GPU-hours', has: always, cell: (row) => threeDigits(row.gpu_hours) },
    { key: 'share', head: 'Share of GPU time', has: always, cell: shareBar },
    { key: 'suspensions', head: 'Suspensions', has: always, cell: (row) => count(row.suspensions) },
    { key: 'cost_dollars', head: 'Cost', has: somePriced, cell: (row) => dollars(row.cost_dollars) },
];

function someUnfinished(data) {
    return data.runs.some((run) => run.jct.some(Number.isNaN));
}

function somePriced(data) {
    return data.runs.some((run) => run.cost);
}

function dollars(value) {
    return value === null ? '-' : `$${value.toLocaleString('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

// One row per group, the group with the most GPU time first.
function groupRows(data, key, run) {
    const { names, code } = data.jobs[key];
    const first = data.runs[0];
    const zeros = { jobs: 0, finished: 0, jct: 0, wait: 0, seconds: 0, suspensions: 0, cost: 0, ours: 0, theirs: 0 };
    const sums = Array.from(names, () => ({ ...zeros }));
    for (let job = 0; job < code.length; job += 1) {
        const sum = sums[code[job]];
        sum.jobs += 1;
        sum.seconds += run.gpu_seconds[job];
        sum.suspensions += run.suspensions[job];
        if (run.cost) sum.cost += run.cost[job];
        if (Number.isNaN(run.jct[job])) continue;
        sum.finished += 1;
        sum.jct += run.jct[job];
        sum.wait += run.wait[job];
        if (Number.isNaN(first.jct[job])) continue;
        sum.ours += run.jct[job];
        sum.theirs += first.jct[job];
    }
    const whole = sums.reduce((total, sum) => total + sum.seconds, 0);
    const rows = sums.map((sum, i) => ({
        name: names[i],
        jobs: sum.jobs,
        finished: sum.finished,
        mean_jct_seconds: sum.finished ? sum.jct / sum.finished : null,
        mean_queueing_seconds: sum.finished ? sum.wait / sum.finished : null,
        jct_ratio: sum.theirs > 0 ? sum.ours / sum.theirs : null,
        gpu_hours: sum.seconds / HOUR,
        share: whole > 0 ? sum.seconds / whole : 0,
        suspensions: sum.suspensions,
        cost_dollars: run.cost ? sum.cost : null,
    }));
    return rows.sort((a, b) => b.gpu_hours - a.gpu_hours || a.name.localeCompare(b.name));
}

function shareBar(row) {
    const bar = draw('svg', { viewBox: '0 0 80 10', 'aria-hidden': 'true' });
    bar.append(
        draw('rect', { x: 0, y: 0, width: 80, height: 10, fill: 'var(--idle)' }),
        draw('rect', { x: 0, y: 0, width: 80 * row.share, height: 10, fill: 'var(--gain)' }),
    );
    return make('span', { class: 'share' }, bar, make('span', {}, percent(row.share)));
}
