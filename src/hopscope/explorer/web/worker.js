// Losses over many prompts, away from the page where the browser lets us, prompt by prompt.

/** Sums over prompts 0 ... count - 1; tells after each, and lets others do something in between. */
async function measure(model, job, tell, stopped) {
  const hops = model.problem.target_hops.length, sums = new Float64Array(hops), along = new Float64Array(model.paths.length);
  for (let n = 0; n < model.live.count; n++) {
    if (stopped()) return;
    const found = computed(model, promptOf(model, n), job.cuts, job.base);
    found.errors.forEach((error, hop) => (sums[hop] += error));
    found.along.forEach((weights, path) => (along[path] += weights.reduce((a, b) => a + b, 0) / weights.length));
    const done = n + 1;
    if (done === model.live.count || done % 4 === 0 || done === 1)
      tell({ key: job.key, done, of: model.live.count, errors: Array.from(sums, (sum) => sum / done), along: Array.from(along, (sum) => sum / done) });
    await new Promise((go) => setTimeout(go));
  }
}

/** What runs inside the worker. */
function serve(scope) {
  const models = new Map();
  let current = null;
  scope.onmessage = async ({ data }) => {
    if (data.model) return void models.set(data.number, Object.assign(data.model, { arrays: { ...data.arrays, net: network(data.model.shape, data.model.live.names, data.arrays.weights) } }));
    current = data.key;
    await measure(models.get(data.number), data, (result) => scope.postMessage(result), () => current !== data.key);
  };
}

/** Measures jobs one after the other, the latest first; results by key are kept. */
function laboratory(onResult) {
  const results = new Map(), sent = new Set();
  let worker = null, current = null;
  try {
    const source = new Blob([$("program").textContent], { type: "text/javascript" });
    worker = new Worker(URL.createObjectURL(source));
    worker.onmessage = ({ data }) => keep(data);
    worker.onerror = () => ((worker = current = null), onResult());  // asked again, it is computed in the page
  } catch {
    worker = null;  // not allowed here: computed in the page, between frames
  }
  function keep(result) {
    results.set(result.key, result);
    onResult(result);
  }
  return {
    get: (key) => results.get(key),
    /** @param {object} model @param {number[]} cuts @param {string} base */
    ask(model, number, cuts, base) {
      const key = [number, base, ...cuts].join(" "), known = results.get(key);
      if (known && known.done === known.of) return known;
      if (current === key) return known;
      current = key;
      const job = { key, number, cuts, base };
      if (!worker) {
        measure(model, job, keep, () => current !== key);
        return known;
      }
      if (!sent.has(number)) {
        const { problem, shape, live, paths } = model, { symbols, places, weights, fixed } = model.arrays;
        worker.postMessage({ number, model: { problem, shape, live, paths }, arrays: { symbols, places, weights, fixed } });
        sent.add(number);
      }
      worker.postMessage(job);
      return known;
    },
  };
}
