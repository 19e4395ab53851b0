// The page: the state, what is drawn of it and where, what keys and buttons do.

async function start() {
  const pristine = "<!doctype html>\n" + document.documentElement.outerHTML;
  const manifest = JSON.parse($("manifest").textContent), models = manifest.models.map(prepared);
  const limits = models.map((model) => ({ checkpoints: model.steps.length, paths: model.paths.length, heads: model.shape.layers * model.shape.heads }));
  const saved = JSON.parse($("view").textContent).hash || "";
  const state = store(fromHash(location.hash, limits) || fromHash(saved, limits) || { ...FRESH, t: models[0].steps.length - 1 });
  const lab = laboratory(() => render(state.get()));
  let drawn = 0, playing = null, own = "", lastCut = 0, axisDrawn = "";
  document.documentElement.classList.add("js");
  $("app").hidden = false;
  tips($("tip"));

  const model = () => models[state.get().m];
  const go = (changes) => state.set(changes);
  const cut = (number) => go({ x: toggled(state.get().x, number), p: number, h: -1, t: model().steps.length - 1 });
  const pick = (number, event) => {
    if (event && event.shiftKey && state.get().p >= 0 && state.get().p !== number) return go({ q: state.get().q === number ? -1 : number });
    const same = state.get().p === number;
    go({ p: same ? -1 : number, q: -1, h: -1 });
  };
  const atStep = (step) => {
    const { steps } = model(), near = steps.reduce((best, one, i) => (Math.abs(one - step) < Math.abs(steps[best] - step) ? i : best), 0);
    go({ t: near });
  };
  const hold = () => {
    const { c, m, t, x } = state.get();
    go({ c: c ? null : { m, t, x } });
  };
  const play = (on) => {
    clearInterval(playing);
    playing = on ? setInterval(() => {
      const { t } = state.get(), last = model().steps.length - 1;
      if (t >= last) play(false);
      go({ t: Math.min(last, t + 1) });
    }, 140) : null;
    if (on && state.get().t === model().steps.length - 1) go({ t: 0 });
    controls(state.get());
  };

  /** One prompt under the state's cuts, kept until they change. */
  let kept = { key: "" }, trunk = { key: "" };
  function live(of, at, all) {
    const one = models[of.m];
    if (!one.live || !one.arrays || !one.arrays.net || at.t !== one.steps.length - 1) return null;
    const key = [of.m, at.s, at.b, all, ...of.x].join(" ");
    if (kept.key === key) return kept.found;
    const began = performance.now(), prompt = promptOf(one, at.s), without = `${of.m} ${at.s}`;
    if (trunk.key !== without) trunk = { key: without, found: computed(one, prompt, [], "model", true) };
    kept = { key, found: { ...computed(one, prompt, of.x, at.b, all, trunk.found), prompt } };
    lastCut = performance.now() - began;
    return kept.found;
  }

  function lookOf(of, now, chosen) {
    const { one, base, changed, end, key } = asked(models, of, now.b);
    const heads = now.v === "prompt" || !one.maps, found = one.arrays ? live(of, { ...now, t: of.t, b: base }, heads || now.a === "prompt") : null;
    const result = one.live && one.arrays && end && changed ? lab.get(key) : null;
    const prompt = one.live && one.arrays ? (found ? found.prompt : promptOf(one, now.s)) : null;
    return { t: of.t, x: of.x, axis: prompt ? now.a : "chain", known: now.k, base, view: viewOf(one, now.v), live: found, prompt, along: result ? result.along : null, chosen: chosen ? now.p : -1, also: chosen ? now.q : -1, pick, cut, at: atStep };
  }

  function render(now) {
    const one = models[now.m], look = lookOf(now, now, true);
    $("facts").textContent = one.facts;
    document.title = document.querySelector("h1").textContent = one.name;
    redraw($("headline"), headline(one));
    circuit(now, one, look);
    side(now, one, look);
    redraw($("time"), timePicture(one, look, Math.max(300, room($("time")))), slider(now, one));
    redraw($("heads"), (one.maps && one.arrays) || look.live ? headsPicture(one, { ...look, chosen: now.h >= 0 ? now.h : now.p >= 0 ? one.paths[now.p].layer * one.shape.heads + one.paths[now.p].head : -1, pick: (h) => go({ h, p: -1, q: -1 }) }, room($("heads")))
      : el("p", { class: "empty" }, one.arrays ? "Neither weights nor role maps are here to show heads by." : "unpacking…"),
      one.gone.length ? el("p", { class: "hint" }, "pale: pruned in training; they write nothing in the end") : null);
    controls(now);
    document.querySelectorAll(".static").forEach((section) => (section.hidden = Number(section.dataset.model) !== now.m));
    own = toHash(now);
    try { history.replaceState(null, "", "#" + own); } catch { /* an address that may not be changed */ }
    document.documentElement.dataset.drawn = String(++drawn);
    if (look.live) document.documentElement.dataset.cut = lastCut.toFixed(1);
  }

  function circuit(now, one, look) {
    const box = $("circuit");
    if (!one.paths.length) redraw(box, el("p", { class: "empty" }, one.circuit ? "This model has no circuit: its loss is not below the threshold." : "No circuit was searched for; all heads are below."));
    else {
      const panes = [], half = now.c && innerWidth > 700, width = Math.max(280, half ? (room(box) - 19) / 2 : room(box));
      const titled = (name, of, picture) => el("div", { "data-key": name }, now.c ? el("p", { class: "title" }, `${name}: ${models[of.m].name}, step ${count(models[of.m].steps[of.t])}${of.x.length ? `, ${of.x.length} cut` : ""}`) : null, picture);
      if (now.c && models[now.c.m].paths.length) panes.push(titled("A", now.c, circuitPicture(models[now.c.m], { ...lookOf(now.c, now, false), chosen: -1, also: -1 }, width)));
      panes.push(titled("B", now, circuitPicture(one, look, width)));
      redraw(box, ...panes);
      if (axisDrawn !== look.axis) box.lastElementChild.scrollLeft = 1e6;  // the queries stand at the end
      axisDrawn = look.axis;
    }
    $("circuit-legend").textContent = !one.paths.length ? "" : look.axis === "chain"
      ? `An arrow leads from what is read to who reads it. Its number is its place in the order of births${one.emergence ? ", filled once its attention has crossed 0.5" : " (unknown here)"}; its weight is the attention. ` + (now.k ? `Strips: the symbols x0 to x${one.problem.hops} that a position can hold along arrows that are not cut (filled), and at most with so many layers (outlined).` : "")
      : "All tokens of one prompt; a colour and a letter are a chain. Squares above a query: for each hop, filled where the nearest symbol to its answer is the right one" + (look.live ? "." : ", at the last checkpoint only.");
  }

  function side(now, one, look) {
    const mine = asked(models, now, now.b), { base, changed: wanted } = mine, a = now.c && asked(models, now.c, now.b), late = [mine, a].find((one) => one && one.early);
    const ready = one.live && one.arrays, whole = ready ? lab.get(`${now.m} model`) : null;
    if (ready) {
      const known = whole && whole.done === whole.of && wanted ? lab.ask(one, now.m, now.x, base) : lab.ask(one, now.m, [], "model");
      look.result = wanted ? lab.get(mine.key) : known;
    }
    if (a && (!wanted || (look.result && look.result.done === look.result.of)) && whole && whole.done === whole.of && a.one.live && a.one.arrays)
      lab.ask(a.one, now.c.m, now.c.x, a.base);
    const held = a && heldLosses(a, now.c.t, lab.get(a.key));
    const done = look.result || whole, words = !one.live ? "No weights here, so nothing can be cut." : !done ? "computing…" : done.done < done.of ? `live: ${done.done} of ${done.of} prompts` : `live: ${done.of} prompts, weights of step ${count(one.live.step)}` + (lastCut ? `; this prompt in ${Math.max(1, Math.round(lastCut))} ms` : "");
    redraw($("losses"), el("div", { class: "bar" }, el("h2", { id: "inspector-title" }, "Loss by hop"),
      one.live && one.live.alone ? choice("What is cut from", [["model", "Model", "Everything that is not cut works"], ["alone", "Circuit alone", "Everything outside the circuit is off"]], base, (b) => go({ b })) : ""),
      lossTable(one, { ...look, whole, x: now.x, base, held: held && held.errors && held.errors.length === one.problem.target_hops.length ? held : null }),
      el("p", { class: "progress", role: "status", "data-done": String(Boolean(done && done.done === done.of && (!wanted || done === look.result))) }, words + (!late ? "" : `. ${late.base === "alone" ? "The circuit alone is" : "Cuts are"} computed at the last checkpoint.`)));
    const parts = now.h >= 0 ? [aboutHead(one, look, now.h)] : now.p >= 0 ? [now.p, now.q].filter((p) => p >= 0).map((p) => aboutPath(one, look, p)) : [aboutCircuit(one)];
    if (now.p >= 0 && now.q < 0 && ((one.maps && one.arrays) || look.live)) parts.push(el("div", { class: "maps" }, el("figure", {}, largeMap(one, look, one.paths[now.p].layer, one.paths[now.p].head, 230), el("figcaption", {}, `layer ${one.paths[now.p].layer + 1} head ${one.paths[now.p].head + 1}: rows attend to columns`))));
    redraw($("inspector"), ...parts.map((part) => el("div", { class: "about" }, part)));
  }

  function slider(now, one) {
    const { steps } = one;
    if (steps.length < 2) return "";
    const range = el("input", { type: "range", min: 0, max: steps.length - 1, value: now.t, step: 1, "aria-label": "Checkpoint", "aria-valuetext": `step ${count(steps[now.t])}`, oninput: (event) => go({ t: Number(event.target.value) }) });
    return el("div", { class: "slider", style: `--left:${room($("time")) < 520 ? 62 : 138}px` }, range, el("output", {}, `step ${count(steps[now.t])}`, el("small", {}, `epoch ${count(steps[now.t] / one.steps_per_epoch)}`)));
  }

  function controls(now) {
    const one = models[now.m], axes = one.live && one.paths.length ? choice("Positions", [["chain", "One chain"], ["prompt", "This prompt"]], now.a, (a) => go({ a })) : "";
    redraw($("circuit-controls"), ...[axes,
      now.a === "prompt" && one.live ? el("button", { type: "button", "data-key": "new", title: "A new random prompt", onclick: () => go({ s: one.live.count + Math.floor(Math.random() * 9e5) }) }, "New prompt") : "",
      now.a === "chain" && one.paths.length ? el("button", { type: "button", "data-key": "known", "aria-pressed": String(now.k), title: "What each position can hold by now, and the theory's bound", onclick: () => go({ k: !state.get().k }) }, "Who knows what") : "",
      one.paths.length ? el("button", { type: "button", "data-key": "hold", "aria-pressed": String(Boolean(now.c)), title: "Keep this view as A and change the other, B", onclick: hold }, now.c ? "One pane" : "Hold as A") : "",
      now.x.length ? el("button", { type: "button", "data-key": "restore", onclick: () => go({ x: [] }) }, `Restore ${now.x.length}`) : ""].filter(Boolean));
    redraw($("time-controls"), ...(one.steps.length > 1 ? [el("span", {}, one.emergence ? "attention " : "", one.emergence ? el("span", { class: "ramp" }) : "", one.emergence ? " 0 to 1" : ""), el("button", { type: "button", "aria-pressed": String(Boolean(playing)), onclick: () => play(!playing) }, playing ? "Pause" : "Play")] : []));
    const views = [...(one.paths.length ? [["circuit", "Circuit", "Rows of the circuit only"]] : []), ["roles", "Own chain"], ["others", "Other chains"], ...(one.live ? [["prompt", "This prompt", "All positions; weights of the last checkpoint"]] : [])];
    redraw($("heads-controls"), choice("What heads show", views, viewOf(one, now.v), (v) => go({ v, ...(v === "prompt" ? { t: one.steps.length - 1 } : {}) })));
  }

  toolbar({ models, state, set: go, pristine, model, look: () => lookOf(state.get(), state.get(), true), hash: () => own });
  keys({ state, go, cut, play, model, playing: () => Boolean(playing) });
  notes(models, state.get().m);
  state.tell((now) => {
    notes(models, now.m);
    load(now).then(() => render(state.get()));
  });
  addEventListener("hashchange", () => location.hash.slice(1) !== own && go(fromHash(location.hash, limits) || {}));
  onOtherWidth(() => render(state.get()));
  const load = (now) => Promise.all([now.m, ...(now.c ? [now.c.m] : [])].map((m) => loadArrays(models[m])));
  render(state.get());
  document.documentElement.dataset.first = performance.now().toFixed(0);
  try {
    await load(state.get());
  } catch (error) {
    const sentence = `The arrays in this file could not be unpacked (${error.message}); the browser may be too old. Pictures and tables are shown, nothing can be computed.`;
    for (const one of models) Object.assign(one, { live: null, maps: null, metrics: null, arrays: {}, missing: [...one.missing, sentence] });
    notes(models, state.get().m);
  }
  render(state.get());
  document.documentElement.dataset.ready = performance.now().toFixed(0);
}

const toggled = (numbers, number) => (numbers.includes(number) ? numbers.filter((n) => n !== number) : [...numbers, number].sort((a, b) => a - b));

/** What the page says before anything is pressed. */
function headline(model) {
  const { circuit, problem, shape } = model, what = `${shape.layers} layers × ${shape.heads} head${shape.heads > 1 ? "s" : ""}, trained on ${problem.hops} hop${problem.hops > 1 ? "s" : ""} in ${problem.chains} chains.`;
  if (!circuit || !circuit.found) return what;
  const crossed = model.born.filter((step) => step !== null);
  return `${what} Its circuit has ${model.paths.length} paths` + (crossed.length ? `, born between steps ${count(Math.min(...crossed))} and ${count(Math.max(...crossed))}` : "") + `, and by itself, its patterns imposed, a loss of ${decimal(circuit.losses.imposed)}; the whole model has ${decimal(circuit.losses.full)}.`;
}

function notes(models, m) {
  $("notes").replaceChildren(...models[m].missing.map((sentence) => el("p", {}, sentence)));
}
