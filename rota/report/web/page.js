// Starts the page, and starts it again for another seed. The parts that Python wrote are readable without this.

function showTrouble(words) {
    byId('trouble').textContent = words;
    byId('trouble').hidden = false;
}

async function start() {
    setUpTheme();
    setUpDefinitions();
    setUpSearchKey();
    if (typeof DecompressionStream === 'undefined') {
        showTrouble(
            'This browser cannot unpack the data behind the charts: it has no DecompressionStream. Any of 2023 or later can.',
        );
        return;
    }
    const untouched = Array.from(document.querySelectorAll('.live'), (section) => section.cloneNode(true));
    const data = await tryLoad(0);
    if (!data) return;
    setUpResults(data);
    setUpResultsDownload();
    showSeed(data);
    setUpSeeds(untouched);
    document.documentElement.dataset.ready = 'yes';
}

async function tryLoad(seed) {
    try {
        return await loadSeed(seed);
    } catch (error) {
        showTrouble(`The data behind the charts cannot be read: ${error.message}. The file may be damaged.`);
        return null;
    }
}

function showSeed(data) {
    resetState(data);
    const pair = data.runs.length > 1;
    for (const section of document.querySelectorAll('.live')) section.hidden = section.classList.contains('pair') && !pair;
    for (const link of document.querySelectorAll('nav .pair')) link.hidden = !pair;
    setUpTimes(data);
    setUpLoad(data);
    setUpMap(data);
    // Some pages do not have it.
    if (byId('placement')) setUpPlacement(data);
    if (pair) setUpGain(data);
    if (byId('groups')) setUpGroups(data);
    setUpJobs(data);
    setUpDownloads(data);
    setUpChosen(data);
}

// Shows another seed: sections are reset to their state in the file, and then the user's choices are restored.
function setUpSeeds(untouched) {
    const select = byId('seed');
    const names = seedNames();
    select.append(...names.map((name, number) => make('option', { value: number }, name)));
    select.closest('label').hidden = names.length < 2;
    select.addEventListener('change', async () => {
        const wanted = select.value;
        const data = await tryLoad(Number(wanted));
        if (!data || select.value !== wanted) return;
        const before = Array.from(document.querySelectorAll(CHOICES), choiceOf);
        document.querySelectorAll('.live').forEach((section, i) => {
            const fresh = untouched[i].cloneNode(true);
            // Charts appear with the next frame. Until then the page must not jump.
            fresh.style.minHeight = `${section.offsetHeight}px`;
            section.replaceWith(fresh);
            requestAnimationFrame(() => requestAnimationFrame(() => fresh.style.removeProperty('min-height')));
        });
        showSeed(data);
        document.querySelectorAll(CHOICES).forEach((control, i) => chooseAgain(control, before[i]));
        document.documentElement.dataset.seed = names[Number(wanted)];
    });
}

const CHOICES = '.live select, .live input, .live [data-what], .live [data-order]';

function choiceOf(control) {
    return control.tagName === 'BUTTON' ? control.getAttribute('aria-pressed') : control.value;
}

function chooseAgain(control, before) {
    if (choiceOf(control) === before) return;
    if (control.tagName === 'BUTTON') {
        if (before === 'true') control.click();
    } else if (control.tagName === 'INPUT') {
        control.value = before;
        control.dispatchEvent(new Event('input'));
    } else if (Array.from(control.options).some((option) => option.value === before)) {
        control.value = before;
        control.dispatchEvent(new Event('change'));
    }
}

start();
