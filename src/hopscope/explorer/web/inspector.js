// Beside the circuit: losses by hop under the cuts, and what is known of what is chosen.

/** @param {object} look  { base, result, whole, t, x, axis, live, held } results of the laboratory, checkpoint, cuts, what is held as A */
function lossTable(model, look) {
  const hops = model.problem.target_hops, { result, whole, t, held } = look, changed = look.x.length > 0 || look.base === "alone";
  const single = look.axis === "prompt" && look.live ? look.live.errors : null, end = t === model.steps.length - 1, shown = model.live && (end || changed);
  const record = single ? null : recordedAt(model, t), recorded = record && record.errors;
  const heads = ["hop", recorded ? `recorded, n = ${count(record.n)}` : null, single ? "this prompt" : null, shown ? (end ? "live" : "live, end") : null, changed && model.live ? (look.base === "alone" ? (look.x.length ? "alone, cut" : "alone") : "cut") : null, held ? held.head : null];
  const mean = (values) => values && values.reduce((a, b) => a + b, 0) / values.length;
  const cells = (name, pick, strong) => {
    const now = changed ? pick(result && result.errors) : end ? pick(whole && whole.errors) : pick(recorded), ghost = pick(whole && whole.errors) ?? pick(recorded);
    const bar = Math.min(1.1, now ?? ghost ?? 0) / 1.1;
    return el("tr", { class: strong ? "all" : null }, el("th", { scope: "row" }, name),
      recorded ? el("td", { class: "number" }, decimal(pick(recorded))) : null, single ? el("td", { class: "number" }, decimal(pick(single))) : null, shown ? el("td", { class: "number" }, decimal(pick(whole && whole.errors))) : null,
      changed && model.live ? el("td", { class: "number", "data-live": name === "all" ? "all" : null }, decimal(pick(result && result.errors))) : null,
      held ? el("td", { class: "number" }, decimal(pick(held.errors))) : null,
      el("td", { class: "meter" }, el("div", {}, el("b", { style: `width:${(bar * 100).toFixed(1)}%` }), changed && ghost !== undefined && ghost !== null ? el("i", { style: `left:${((Math.min(1.1, ghost) / 1.1) * 100).toFixed(1)}%` }) : null)));
  };
  const rows = hops.map((hop, n) => cells([el("i", {}, "x"), el("sub", {}, String(hop))], (values) => (values ? values[n] : undefined)));
  if (hops.length > 1) rows.push(cells("all", mean, true));
  return el("table", { class: "losses" }, el("thead", {}, el("tr", {}, heads.filter(Boolean).map((head, i) => el("th", { scope: "col", class: i ? "number" : null }, head)), el("td", {}))), el("tbody", {}, rows));
}

/** What is known of a path. */
function aboutPath(model, look, number) {
  const path = model.paths[number], history = model.emergence && model.emergence.paths[number], t = look.t, cut = look.x.includes(number), facts = [];
  const fact = (name, ...value) => facts.push(el("dt", {}, name), el("dd", {}, ...value));
  fact("attention", number2(strength(model, look, number)), look.along && (look.x.length || look.base === "alone") ? " live" : history ? ` at step ${count(model.steps[t])}` : " at the end");
  if (history) {
    const { step, low, high } = history.crossing;
    fact("born", step === null ? "its attention never crosses 0.5" : `${ordinal(model.birth[number])}, at step ${count(step)}` + (low !== null && high !== null ? ` (${count(low)} to ${count(high)})` : ""));
    fact("foremost", `${Math.round(history.foremost[t] * 100)}% of queries look there most`);
    const [low2, high2] = history.change_interval[t];
    fact("cut alone", `loss ${signed(history.change[t])} (${signed(low2)} to ${signed(high2)}), n = ${model.emergence.sequences}`);
  }
  fact("the circuit without it", `${decimal(path.without)} own patterns, ${decimal(path.without_imposed)} imposed`);
  if (path.feeds.length) fact("feeds", path.feeds.slice(0, 4).map((feed) => el("div", {}, feed.replace("->", "→"))));
  const python = `run[${model.number}].ablate({"${model.python(path)}": "uniform"})`;
  return el("div", { class: "one" },
    el("h3", {}, `${model.birth[number]} · layer ${path.layer + 1}${model.shape.heads > 1 ? ` head ${path.head + 1}` : ""}: `, roleNodes(path.query, model.problem.hops), " → ", roleNodes(path.key, model.problem.hops)),
    el("dl", {}, facts), history ? sparkline(model, history, t) : null,
    el("div", { class: "buttons" }, el("button", { type: "button", "aria-pressed": String(cut), onclick: () => look.cut(number) }, cut ? "Restore" : "Cut this path"),
      el("button", { type: "button", onclick: () => copyText(`hs.Run("${model.folder}")[${model.number}].ablate({"${model.python(path)}": "uniform"})`) }, "Copy Python")),
    el("pre", { tabindex: 0 }, python));
}

const ordinal = (n) => n + (n % 100 > 10 && n % 100 < 14 ? "th" : ["th", "st", "nd", "rd"][n % 10] || "th");

/** Attention (line) and what its absence costs (area) over training. */
function sparkline(model, history, t) {
  const wide = 290, tall = 58, x = (i) => (model.steps[i] / model.total) * (wide - 4) + 2, top = Math.max(0.2, ...history.change);
  const line = history.attention.map((weight, i) => `${i ? "L" : "M"}${r1(x(i))} ${r1(tall - 2 - weight * (tall - 6))}`).join("");
  const area = `M2 ${tall - 2}` + history.change.map((rise, i) => `L${r1(x(i))} ${r1(tall - 2 - (Math.max(0, rise) / top) * (tall - 6))}`).join("") + `L${r1(x(model.steps.length - 1))} ${tall - 2}z`;
  return el("figure", { style: "margin:0" }, svg("svg", { viewBox: `0 0 ${wide} ${tall}`, width: "100%", style: "max-width:24rem", role: "img", "aria-label": "Attention and cost of its absence over training", "data-figure": "path" },
    svg("path", { d: area, fill: "var(--strong)", "fill-opacity": 0.45 }), svg("line", { class: "rule", x1: 0, x2: wide, y1: tall / 2, y2: tall / 2 }), svg("path", { class: "curve", d: line }),
    svg("line", { class: "playhead", x1: x(t), x2: x(t), y1: 0, y2: tall })),
  el("figcaption", { class: "hint" }, `line: attention, 0 to 1; shade: rise of the loss without it, 0 to ${number2(top)}`));
}

/** What is known of a head. */
function aboutHead(model, look, number) {
  const { heads } = model.shape, layer = Math.floor(number / heads), head = number % heads;
  const mine = model.paths.map((path, i) => [path, i]).filter(([path]) => path.layer === layer && path.head === head);
  const words = look.view === "prompt" && look.live ? "this prompt, position by position" : look.view === "others" ? "to all other chains together" : "within its own chain";
  return el("div", {}, el("h3", {}, `Layer ${layer + 1}, head ${head + 1}`),
    el("p", { class: "hint" }, mine.length ? `In the circuit with ${mine.length} path${mine.length > 1 ? "s" : ""}.` : model.gone.includes(number) ? "Pruned in training: it writes nothing in the end." : "Not in the circuit."),
    el("div", { class: "buttons" }, mine.map(([path, i]) => el("button", { type: "button", onclick: () => look.pick(i) }, `${model.birth[i]}: `, roleNodes(path.query, model.problem.hops), " → ", roleNodes(path.key, model.problem.hops)))),
    el("div", { class: "maps" }, el("figure", {}, largeMap(model, look, layer, head, 250), el("figcaption", {}, `rows attend to columns, ${words}`))));
}

/** With nothing chosen: the circuit as a whole. */
function aboutCircuit(model) {
  const { circuit, theory, problem } = model;
  if (!circuit || !circuit.found) return el("div", {}, el("h3", {}, circuit ? "No circuit" : "No record of a circuit"),
    el("p", { class: "hint" }, circuit ? `The model's loss of ${decimal(circuit.losses.full)} is not below the threshold of ${circuit.max_loss}.` : "All heads are shown below; the circuit is not known."), checks(circuit));
  const { losses } = circuit, heads = new Set(model.paths.map((path) => `${path.layer}.${path.head}`)).size;
  return el("div", {}, el("h3", {}, `Circuit, ${circuit.verdict}`),
    el("dl", {}, el("dt", {}, "paths"), el("dd", {}, `${model.paths.length} in ${heads} of ${model.shape.layers * model.shape.heads} heads, ${model.used.length} layers`),
      el("dt", {}, "theory needs"), el("dd", {}, theory.least === null ? "no depth is enough" : `${theory.least} layers (Theorem 1: at least ${theory.theorem_1})`),
      el("dt", {}, "loss"), el("dd", {}, `${decimal(losses.full)} model, ${decimal(losses.own)} circuit with own patterns, ${decimal(losses.imposed)} imposed, ${decimal(losses.nothing)} nothing`)),
    card(circuit), checks(circuit), el("p", { class: "hint" }, "Click an arrow, a strip or a head."));
}

/** The numbers of the card, and the circuit of Appendix E with its loss with own patterns. */
function card(circuit) {
  const rows = [...circuit.card, ...(circuit.imposed ? [["Appendix E", circuit.imposed]] : [])];
  if (!rows.length) return null;
  return el("table", { class: "measured" }, el("tbody", {}, rows.map(([name, text]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, text)))));
}

function checks(circuit) {
  if (!circuit || !circuit.checks.length) return null;
  const passed = circuit.checks.filter((check) => check.outcome === "passed").length;
  return el("details", {}, el("summary", {}, `Checks: ${passed} of ${circuit.checks.length} passed`),
    el("ul", { class: "parts" }, circuit.checks.map((check) => el("li", { class: check.outcome === "failed" ? "fail" : null }, el("b", {}, check.name.replaceAll("_", " ")), ` ${check.says}`))));
}

/** To the clipboard where there is one, else by a selection. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea", { style: "position:fixed;opacity:0" }, text);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
