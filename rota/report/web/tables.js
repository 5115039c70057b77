// The table of results, which is already in the page and becomes sortable, and the table of jobs with its pages.

const PAGE_ROWS = 20;

function setUpResults(data) {
    const table = document.querySelector('.results');
    const body = table.tBodies[0];
    const rows = Array.from(body.rows);
    rows.forEach((row, i) => row.cells[0].prepend(swatch(data.runs[i].colour)));
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, column) => {
        const words = head.querySelector('span');
        const label = make('button', { type: 'button', class: 'sort' }, ...words.childNodes);
        words.replaceWith(label);
        label.addEventListener('click', () => {
            const up = head.getAttribute('aria-sort') !== 'ascending';
            for (const other of heads) other.removeAttribute('aria-sort');
            head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
            body.append(...sortedRows(rows, column, up));
        });
    });
    hintMore(table);
}

function sortedRows(rows, column, up) {
    const value = (row) => row.cells[column].dataset.value;
    const known = rows.filter((row) => value(row) !== undefined),
        unknown = rows.filter((row) => value(row) === undefined);
    const number = (row) => Number(value(row));
    const order = column === 0 ? (a, b) => value(a).localeCompare(value(b)) : (a, b) => number(a) - number(b);
    // Unknown values come last in either order.
    return [...known.sort((a, b) => (up ? 1 : -1) * order(a, b)), ...unknown];
}

// Marks a table that is wider than its box, since some systems show no scrollbar. The keyboard can then scroll it.
function hintMore(table) {
    const box = table.closest('.scroll'),
        hint = box.previousElementSibling;
    const update = () => {
        const beyond = box.scrollWidth - box.clientWidth;
        hint.hidden = beyond < 1;
        if (beyond < 1) box.removeAttribute('tabindex');
        else box.setAttribute('tabindex', 0);
        box.toggleAttribute('data-more', box.scrollLeft < beyond - 1);
    };
    box.addEventListener('scroll', update, { passive: true });
    const watch = new ResizeObserver(update);
    watch.observe(box);
    watch.observe(table);
}

function setUpSearchKey() {
    document.addEventListener('keydown', (event) => {
        if (event.key !== '/' || event.ctrlKey || event.metaKey || /^(input|select|textarea)$/i.test(event.target.tagName))
            return;
        event.preventDefault();
        byId('jobs-search').focus();
    });
}

function setUpJobs(data) {
    const search = byId('jobs-search');
    const view = { data, columns: jobColumns(data), order: null, up: true, page: 0, found: null, text: searchText(data) };
    view.found = Uint32Array.from({ length: data.jobs.gpus.length }, (_, job) => job);
    const render = () => renderJobs(view, render);
    search.addEventListener('input', () => {
        view.found = matching(view, search.value);
        sortJobs(view);
        view.page = 0;
        render();
    });
    byId('jobs-back').addEventListener('click', () => {
        view.page -= 1;
        render();
    });
    byId('jobs-next').addEventListener('click', () => {
        view.page += 1;
        render();
    });
    onChange((changed) => {
        if ('chosen' in changed) render();
    });
    render();
    hintMore(byId('jobs-table'));
}

function jobColumns(data) {
    const { jobs } = data;
    const columns = [
        { head: 'Job', cell: (job) => jobButton(data, job), by: (job) => job },
        { head: 'GPUs', cell: (job) => count(jobs.gpus[job]), by: (job) => jobs.gpus[job] },
    ];
    for (const [key, head] of [
        ['tenant', 'Tenant'],
        ['user', 'User'],
        ['profile', 'Profile'],
    ]) {
        const { names, code } = jobs[key];
        if (!names.some((name) => name)) continue;
        const rank = new Uint32Array(names.length);
        Array.from(names.keys())
            .sort((i, j) => names[i].localeCompare(names[j]))
            .forEach((group, i) => {
                rank[group] = i;
            });
        columns.push({ head, text: true, cell: (job) => named(names[code[job]]), by: (job) => rank[code[job]] });
    }
    columns.push({ head: 'Submitted', cell: (job) => duration(jobs.submitted[job]), by: (job) => jobs.submitted[job] });
    if (data.runs.length === 1 && data.runs[0].cost) {
        const { cost } = data.runs[0];
        columns.push({ head: 'Cost', cell: (job) => dollars(cost[job]), by: (job) => cost[job] });
    }
    for (const run of data.runs) {
        columns.push({ head: `JCT ${run.label}`, cell: (job) => duration(run.jct[job]), by: (job) => run.jct[job] });
    }
    return columns;
}

// Converted to lower case once, since every key press searches all of it.
function searchText(data) {
    const { jobs } = data;
    const groups = ['tenant', 'user', 'profile'].map((key) => jobs[key]);
    return jobs.name.map((name, job) => [name, ...groups.map(({ names, code }) => names[code[job]])].join('\n').toLowerCase());
}

function matching(view, words) {
    const wanted = words
        .trim()
        .toLowerCase()
        .split(/\s+/)
        .filter((word) => word);
    const found = [];
    view.text.forEach((text, job) => {
        if (wanted.every((word) => text.includes(word))) found.push(job);
    });
    return Uint32Array.from(found);
}

function sortJobs(view) {
    if (!view.order) return;
    const { by } = view.order,
        turn = view.up ? 1 : -1;
    const rank = (job) => (Number.isNaN(by(job)) ? turn * Infinity : by(job));
    view.found.sort((a, b) => turn * (rank(a) - rank(b)) || a - b);
}

function renderJobs(view, render) {
    const { columns, found } = view;
    const pages = Math.max(Math.ceil(found.length / PAGE_ROWS), 1);
    view.page = clamp(view.page, 0, pages - 1);
    const first = view.page * PAGE_ROWS,
        last = Math.min(first + PAGE_ROWS, found.length);
    const head = columns.map((column) => {
        const sort = () => {
            view.up = view.order === column ? !view.up : true;
            view.order = column;
            sortJobs(view);
            view.page = 0;
            render();
        };
        const sorted = view.order === column ? (view.up ? 'ascending' : 'descending') : undefined;
        const label = make('button', { type: 'button', class: 'sort', click: sort }, named(column.head));
        return make('th', { scope: 'col', 'aria-sort': sorted, class: column.text ? 'text' : undefined }, label);
    });
    const rows = Array.from(found.subarray(first, last), (job) =>
        make(
            'tr',
            { class: job === state.chosen ? 'chosen-row' : undefined },
            ...columns.map((column) => make('td', { class: column.text ? 'text' : undefined }, column.cell(job))),
        ),
    );
    byId('jobs-table').replaceChildren(make('thead', {}, make('tr', {}, ...head)), make('tbody', {}, ...rows));
    byId('jobs-count').textContent = found.length
        ? `${count(first + 1)} to ${count(last)} of ${plural(found.length, 'job')}`
        : 'No job matches.';
    byId('jobs-turn').hidden = pages === 1;
    byId('jobs-back').disabled = view.page === 0;
    byId('jobs-next').disabled = view.page === pages - 1;
}
