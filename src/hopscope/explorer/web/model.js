// One model of the manifest with its arrays: what the views ask of it.

/** Adds what follows from the record alone: births, columns, who is in which layer. */
function prepared(model) {
  const paths = model.circuit ? model.circuit.paths : [], history = model.emergence;
  const born = paths.map((_, i) => (history ? history.paths[i].crossing.step : null));
  const order = paths.map((_, i) => i).sort((a, b) => (born[a] ?? 1e12) - (born[b] ?? 1e12) || paths[a].layer - paths[b].layer || a - b);
  const birth = [];
  order.forEach((path, place) => (birth[path] = place + 1));
  const { roles } = model.problem;
  return Object.assign(model, {
    paths, born, order, birth, roles,
    steps: history ? history.steps : model.maps ? model.maps.steps : [model.live ? model.live.step : model.steps],
    used: [...new Set(paths.map((path) => path.layer))].sort((a, b) => a - b),
    total: model.steps,
    say: (path) => `layer ${path.layer + 1} head ${path.head + 1}: ${roles[path.query]} → ${roles[path.key]}`,
    python: (path) => `L${path.layer + 1}.H${path.head + 1} ${roles[path.query]} -> ${roles[path.key]}`,
  });
}

/** Decoded arrays by name, each once. */
const decoded = new Map();
function chunk(name) {
  if (!decoded.has(name)) {
    const node = document.querySelector(`script[data-chunk="${name}"]`);
    decoded.set(name, unpack(JSON.parse(node.dataset.head), node.textContent));
  }
  return decoded.get(name);
}

/** Everything packed that belongs to a model. */
async function loadArrays(model) {
  if (model.arrays) return model.arrays;
  const arrays = {}, { live, maps, metrics } = model;
  if (metrics) arrays.metrics = await chunk(metrics.chunk);
  if (maps) arrays.maps = await chunk(maps.chunk);
  if (live) {
    for (const name of ["symbols", "places", "weights"]) arrays[name] = await chunk(live[name]);
    arrays.net = network(model.shape, live.names, arrays.weights);
    arrays.fixed = live.fixed ? await chunk(live.fixed) : null;
  }
  model.arrays = arrays;
  return arrays;
}

/** Prompt `n` of a model: the first are those it was measured on, later ones are drawn. */
function promptOf(model, n) {
  const { problem, live, arrays } = model;
  if (n >= live.count) return draw(problem, n);
  const size = problem.chains * (problem.hops + 1) * problem.symbol_dim, spots = problem.chains * (2 * problem.hops + 1);
  return compose(problem, arrays.symbols.slice(n * size, (n + 1) * size), arrays.places.slice(n * spots, (n + 1) * spots));
}

/** What is cut from: the circuit alone where there is one, else the whole model. */
const baseOf = (model, base) => (base === "alone" && model.live && model.live.alone ? "alone" : "model");

/** What heads show: rows of the circuit where there is one. */
const viewOf = (model, view) => (view === "circuit" && !model.paths.length ? "roles" : view);

/**
 * What is computed of a view. @param {{m: number, t: number, x: number[]}} of  B, which is the state, or A, which is held
 * `changed`: anything is cut. `early`: that is computed at the end, and the view is of an earlier checkpoint.
 */
function asked(models, of, base) {
  const one = models[of.m], from = baseOf(one, base), end = of.t === one.steps.length - 1;
  const changed = of.x.length > 0 || from === "alone";
  return { one, base: from, changed, end, early: changed && !end && Boolean(one.live), key: [of.m, from, ...of.x].join(" ") };
}

/** The losses by hop on record for a checkpoint, and of how many sequences: at the end of training those of the run. */
function recordedAt(model, t) {
  const { emergence, held_out: run, maps, steps, total } = model;
  if (run && (steps[t] >= total || !(emergence || maps))) return { errors: run.partial, n: run.n };
  return emergence ? { errors: emergence.partial_losses[t], n: emergence.sequences } : null;
}

/** Losses of what is held as A, and their heading: recorded at its checkpoint, or computed at the end. */
function heldLosses(a, t, result) {
  if (!a.changed && a.one.emergence) return { head: "A", errors: recordedAt(a.one, t).errors };
  return { head: a.early ? "A, end" : "A", errors: result && result.errors };
}

/** The program of some cuts, from the whole model or from the circuit alone. @returns {Program} */
function programOf(model, cuts, base) {
  const program = new Map(), { problem, shape, live, arrays, paths } = model;
  if (baseOf(model, base) === "alone") {
    for (let layer = 0; layer < shape.layers; layer++)
      for (let head = 0; head < shape.heads; head++)
        for (let query = 0; query <= 2 * problem.hops; query++) program.set(rowName(layer, head, query), { kind: "uniform" });
    const square = (problem.chains * (2 * problem.hops + 1)) ** 2;
    for (const row of live.alone)
      program.set(rowName(row.layer, row.head, row.query),
        row.kind === "fixed" ? { kind: "fixed", fixed: arrays.fixed.subarray(row.fixed * square, (row.fixed + 1) * square) } : row);
  }
  for (const cut of cuts) program.set(rowName(paths[cut].layer, paths[cut].head, paths[cut].query), { kind: "uniform" });
  return program;
}

/** One prompt under some cuts. `trunk` is the same prompt without any: what lies below the first cut is taken from there. */
function computed(model, prompt, cuts, base, all = false, trunk = null) {
  const program = programOf(model, cuts, base), edit = program.size ? editOf(program, prompt, model.shape.causal) : null;
  const start = trunk ? Math.min(firstLayer(program, model.shape.layers), model.shape.layers - 1) : 0;
  const out = forward(model.arrays.net, prompt.inputs, edit, trunk ? { all, start, streams: trunk.streams } : { all });
  for (let layer = 0; layer < start; layer++) out.patterns[layer] = trunk.patterns[layer];
  const length = prompt.role.length, roles = 2 * model.problem.hops + 1;
  const along = model.paths.map((path) => {
    const weights = [];
    for (let c = 0; c < model.problem.chains; c++)
      weights.push(out.patterns[path.layer][(path.head * length + prompt.place[c * roles + path.query]) * length + prompt.place[c * roles + path.key]]);
    return weights;
  });
  return { ...out, along, errors: errors(model.problem, prompt, out.answers), nearest: nearest(model.problem, prompt, out.answers) };
}
