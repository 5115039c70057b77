// Starts the page. What Python wrote is readable without any of this.

function tellTrouble(words) {
    byId('trouble').textContent = words;
    byId('trouble').hidden = false;
}

async function start() {
    setUpTheme();
    setUpDefinitions();
    if (typeof DecompressionStream === 'undefined') {
        tellTrouble(
            'This browser cannot unpack the data behind the charts: it has no DecompressionStream. Any of 2023 or later can.',
        );
        return;
    }
    let data;
    try {
        data = await loadData();
    } catch (error) {
        tellTrouble(`The data behind the charts cannot be read: ${error.message}. The file may be damaged.`);
        return;
    }
    data.runs.forEach((run, index) =>
        Object.assign(run, {
            index,
            colour: data.palette[index % data.palette.length],
            dash: data.dashes[Math.floor(index / 4) % data.dashes.length],
            total: totalBusy(run, data.bins),
        }),
    );
    Object.assign(state, { from: 0, to: data.end, end: data.end });
    const pair = data.runs.length > 1;
    for (const section of document.querySelectorAll('.live')) section.hidden = section.classList.contains('pair') && !pair;
    for (const link of document.querySelectorAll('nav .pair')) link.hidden = !pair;
    setUpResults(data);
    setUpTimes(data);
    setUpLoad(data);
    setUpMap(data);
    if (pair) setUpGain(data);
    setUpJobs(data);
    setUpChosen(data);
    document.documentElement.dataset.ready = 'yes';
}

function totalBusy(run, bins) {
    const total = new Float32Array(bins);
    run.busy.forEach((value, i) => {
        total[i % bins] += value;
    });
    return total;
}

start();
