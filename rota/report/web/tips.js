// Elements above the page: the tooltip, definitions and the followed job. Also the theme.

function showTip(event, ...children) {
    const tip = byId('tip');
    tip.replaceChildren(...children);
    tip.hidden = false;
    place(tip, event.clientX + 16, event.clientY + 14, event.clientX - 16);
}

function hideTip() {
    byId('tip').hidden = true;
}

// Begins at x, or ends at the other x if the window is too narrow.
function place(box, x, y, other) {
    const { offsetWidth: width, offsetHeight: height } = box;
    const left = x + width + 8 > window.innerWidth ? Math.max(other - width, 8) : x;
    box.style.left = `${left}px`;
    box.style.top = `${clamp(y, 8, Math.max(window.innerHeight - height - 8, 8))}px`;
}

function swatch(colour) {
    const box = make('span', { class: 'swatch' });
    box.style.background = colour;
    return box;
}

function setUpDefinitions() {
    const box = byId('definition');
    const close = () => {
        box.hidden = true;
    };
    const open = (link) => {
        const term = byId(link.getAttribute('href').slice(1));
        if (!term) return;
        const all = make('a', { href: link.getAttribute('href'), click: close }, 'All definitions');
        box.replaceChildren(make('b', {}, term.textContent), make('p', {}, term.nextElementSibling.textContent), all);
        box.hidden = false;
        const spot = link.getBoundingClientRect();
        place(box, spot.left - 12, spot.bottom + 8, spot.right + 12);
    };
    let pinned = null;
    document.addEventListener('click', (event) => {
        const link = event.target.closest('a.define, a.word');
        if (link) {
            event.preventDefault();
            if (pinned === link && !box.hidden) {
                close();
                pinned = null;
            } else {
                open(link);
                pinned = link;
            }
        } else if (!box.contains(event.target)) {
            close();
            pinned = null;
        }
    });
    document.addEventListener('pointerover', (event) => {
        if (event.pointerType !== 'mouse') return;
        const link = event.target.closest('a.define, a.word') || event.target.closest('th')?.querySelector('a.define');
        if (link && !pinned) open(link);
        else if (!link && !pinned && !box.contains(event.target)) close();
    });
    document.addEventListener('keydown', (event) => {
        if (event.key !== 'Escape') return;
        if (!box.hidden) close();
        else if (state.chosen !== null) change({ chosen: null });
        pinned = null;
    });
    window.addEventListener('scroll', close, { passive: true });
}

function isDark() {
    const set = document.documentElement.dataset.theme;
    return set ? set === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

function setUpTheme() {
    const toggle = byId('theme');
    const update = () => {
        toggle.textContent = isDark() ? 'Light' : 'Dark';
        toggle.setAttribute('aria-label', isDark() ? 'Use the light theme' : 'Use the dark theme');
        change({ theme: isDark() });
    };
    toggle.addEventListener('click', () => {
        document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
        update();
    });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', update);
    toggle.hidden = false;
    update();
}

function themeColour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// The bar at the bottom, with the followed job under every policy.
function setUpChosen(data) {
    const bar = byId('chosen');
    bar.hidden = true;
    onChange((changed) => {
        if (!('chosen' in changed)) return;
        const job = state.chosen;
        bar.hidden = job === null;
        if (job === null) return;
        const runs = data.runs.map((run) => make('span', {}, swatch(run.colour), named(run.label), ` ${duration(run.jct[job])}`));
        const clear = button('Clear', 'Stop following this job', () => change({ chosen: null }));
        bar.replaceChildren(
            make('b', {}, named(jobName(data, job))),
            make('span', {}, plural(data.jobs.gpus[job], 'GPU')),
            make('span', {}, 'JCT:'),
            ...runs,
            clear,
        );
    });
}

function jobName(data, job) {
    return data.jobs.name[job] || `job ${job}`;
}
