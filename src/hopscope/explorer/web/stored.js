// The page of a stored circuit: its paths over the roles of a prompt, and the losses measured without each. It computes
// nothing. A cut is a path, or a row that attends to no other role (a helper).

/** @typedef {{c: number, h: string, x: number, k: number}} Seen  chosen cut or -1; chosen head ("" for none); what is cut or -1; rows left */

const USES = { query: ["a query", "var(--chain-1)"], key: ["a key", "var(--chain-3)"], value: ["a value", "var(--chain-0)"], answer: ["the answer", "var(--chain-2)"], "": ["no use seen", "var(--ink)"] };
const percent = (share) => `${Math.round(share * 100)}%`.replace("-", "−");
const within = (interval) => (interval ? `${decimal(interval[0])} to ${decimal(interval[1])}` : "–");
const headOf = (cut) => `L${cut.layer}.H${cut.head}`;
const nameOf = (cut) => `${headOf(cut)} ${cut.query}${cut.key === undefined ? " (helper row)" : ` → ${cut.key}`}`;
/** The record with what can be cut, and in the names of this page. */
function prepared(record) {
  const { paths, helpers, card, checks, text, search, accuracy } = record, same = (a, b) => ["layer", "head", "query", "key"].every((name) => a[name] === b[name]);
  const most = (feeds) => feeds.reduce((best, feed) => (best && best.change >= feed.change ? best : feed), null), { numbers = {}, interval = null } = checks.sufficiency || {};
  const scores = Object.fromEntries(Object.entries((text && text.scores) || {}).map(([name, score]) => [name, { ...score, interval: accuracy[name] }]));
  return {
    ...record, scores, cuts: [...paths.map((path) => ({ ...path, into: path.feeds.length ? most(path.feeds).into : "" })), ...helpers],
    redundant: record.groups.map((group) => ({ needs: group.needs, cuts: group.paths.map((path) => paths.findIndex((one) => same(one, path))) })),
    interval: "worst" in numbers && numbers.worst === numbers.circuit ? interval : null, // that of the worst of several losses
    proof: search.proof, loss: text ? "Brier score" : "mean squared error", order: card ? card.order : [], curve: card ? card.curve.points : [], baselines: card ? card.baselines : {},
  };
}

/** A use in words, as `K of layer 5 (x0? → >x1)`; heads of one layer that read alike are one. */
const usesOf = (feeds) => [...new Set(feeds.map(({ into, layer, query, key }) => (into === "answer" ? "the answer" : `${into[0].toUpperCase()} of layer ${layer} (${query} → ${key})`)))];
const groupsOf = (record, cut) => record.redundant.filter((group) => group.cuts.includes(cut));

function start() {
  const record = prepared(JSON.parse($("manifest").textContent)), { cuts, order, curve } = record, all = order.length;
  const stops = curve.filter(([rows]) => rows <= all), root = document.documentElement;
  const state = store(fromHash(location.hash) || { c: -1, h: "", x: -1, k: all });
  let drawn = 0, own = "";
  root.classList.add("js");
  $("app").hidden = false;
  tips($("tip"));

  function fromHash(text) {
    const found = text.match(/^#v1(?:\.c(\d+))?(?:\.h(\d+)-(\d+))?(?:\.x(\d+))?(?:\.k(\d+))?$/), number = (at, below) => (found[at] !== undefined && Number(found[at]) < below ? Number(found[at]) : -1);
    if (!found) return null;
    const head = found[2] ? `L${found[2]}.H${found[3]}` : "", k = number(5, all);
    return { c: number(1, cuts.length), h: cuts.some((cut) => headOf(cut) === head) ? head : "", x: number(4, cuts.length), k: k < 0 ? all : k };
  }
  const toHash = ({ c, h, x, k }) => ["v1", c >= 0 && `c${c}`, h && h.replace("L", "h").replace(".H", "-"), x >= 0 && `x${x}`, k < all && `k${k}`].filter(Boolean).join(".");

  const look = {
    pick: (c) => state.set({ c: state.get().c === c ? -1 : c, h: "" }),
    head: (h) => state.set({ h: state.get().h === h ? "" : h, c: -1 }),
    cut: (x) => state.set({ x: state.get().x === x ? -1 : x, c: x, h: "", k: all }),
    keep: (k) => state.set({ k: Math.max(0, Math.min(all, k)), x: -1 }),
    whole: () => state.set({ x: -1, k: all }),
  };

  function render(now) {
    const gone = new Set(order.slice(0, all - now.k)), beside = groupsOf(record, now.c).flatMap((group) => group.cuts);
    const seen = cuts.map((cut, i) => ({
      off: i === now.x || gone.has(`layer ${cut.layer} head ${cut.head} ${cut.query}`),
      chosen: i === now.c || headOf(cut) === now.h, also: i !== now.c && beside.includes(i),
    }));
    const changed = now.x >= 0 || now.k < all, box = $("circuit");
    redraw(box, el("div", {}, cuts.length ? circuitPicture(record, seen, now, look, Math.max(300, room(box))) : el("p", { class: "empty" }, "No circuit was found.")));
    redraw($("circuit-controls"), ...(changed ? [el("button", { type: "button", "data-key": "whole", onclick: look.whole }, "Restore")] : []));
    redraw($("losses"), el("h2", { id: "inspector-title" }, record.loss[0].toUpperCase() + record.loss.slice(1)), lossTable(record, now),
      el("p", { class: "hint" }, `${record.proof ? `n = ${count(record.proof.sequences)} prompts, ${count(record.proof.deciding)} where in doubt; ` : ""}95% intervals${record.interval || !cuts.length ? "" : " (none is stored for the circuit itself)"}. A circuit may lose ${decimal(record.max_loss)} at most.`));
    redraw($("inspector"), el("div", { class: "about" }, now.h ? aboutHead(record, now.h, look) : now.c >= 0 ? aboutCut(record, now, look) : aboutAll(record)));
    redraw($("fewer"), ...(all ? fewer(record, stops, now, look, Math.max(280, room($("fewer")))) : [el("p", { class: "empty" }, "The record has no curve.")]));
    redraw($("cuts"), ...cutTable(record, seen, look));
    own = toHash(now);
    try { history.replaceState(null, "", "#" + own); } catch { /* an address that may not be changed */ }
    root.dataset.drawn = String(++drawn);
  }

  redraw($("headline"), headline(record));
  $("circuit-legend").append("An arrow leads from what is read to who reads it, its number is the head, its weight the mean attention; a loop is a row that attends to no other role." + (cuts.some((cut) => cut.into) ? " Paths feed" : ""),
    ...(cuts.some((cut) => cut.into) ? Object.entries(USES).filter(([into]) => cuts.some((cut) => cut.into === into)).flatMap(([, [words, color]]) => [el("span", { class: "key", style: `background:${color}` }), words]) : []));
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const picture = () => offer("circuit.svg", "image/svg+xml", plainSvg(document.querySelector("svg[data-figure=circuit]")));
  $("tools").append(...(cuts.length ? [el("button", { type: "button", onclick: picture }, "Save SVG")] : []),
    el("button", { type: "button", "aria-label": "Light or dark", title: "Light or dark", onclick: () => { root.dataset.theme = dark() ? "light" : "dark"; } }, "◐"),
    el("button", { type: "button", "aria-label": "Help", onclick: help }, "?"));
  document.addEventListener("keydown", (event) => {
    const now = state.get();
    if (event.target.closest("input, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
    const acts = { x: () => now.c >= 0 && look.cut(now.c), 0: look.whole, Escape: () => state.set({ c: -1, h: "" }), ArrowLeft: () => look.keep(now.k - 1), ArrowRight: () => look.keep(now.k + 1), "?": help };
    if (!acts[event.key] || event.target.closest(".scroll")) return;
    event.preventDefault();
    acts[event.key]();
  });
  state.tell(render);
  addEventListener("hashchange", () => location.hash.slice(1) !== own && state.set(fromHash(location.hash) || {}));
  onOtherWidth(() => render(state.get()));
  render(state.get());
  root.dataset.ready = "true";
}

function headline(record) {
  const { cuts, losses, scores, card, checks } = record, paths = cuts.filter((cut) => cut.key !== undefined), heads = new Set(cuts.map(headOf)).size;
  if (!cuts.length) return record.headline;
  const asked = Object.values(checks).filter(({ outcome }) => outcome !== "not asked"), passed = asked.filter(({ outcome }) => outcome === "passed").length;
  return `${paths.length} paths in ${heads} of ${count(record.layers * record.heads)} heads` + (card === null ? "" : ` go ${percent(card.own.uniform)} of the way from nothing to the model`) +
    `: by themselves they have a ${record.loss} of ${decimal(losses.own)}, the model has ${decimal(losses.full)}, nothing ${decimal(losses.nothing)}` +
    (scores.own ? `; they answer ${percent(scores.own.accuracy)} of the prompts, the model ${percent(scores.full.accuracy)}` : "") +
    `. ${record.verdict[0].toUpperCase() + record.verdict.slice(1)}${asked.length ? `: ${passed} of the ${asked.length} checks that were asked are passed` : ""}.`;
}

/** Layers up, roles across in the order of the prompt; layers without a path are folded. */
function circuitPicture(record, seen, now, look, width) {
  const { cuts, roles } = record, narrow = width < 520, left = narrow ? 66 : 128, unit = Math.max(44, (width - left - 50) / Math.max(1, roles.length - 1)), wide = left + 50 + unit * (roles.length - 1);
  const at = Object.fromEntries(roles.map((role, i) => [role, left + 20 + unit * i])), bands = [], twins = {};
  cuts.forEach((cut, i) => (twins[[cut.layer, cut.query, cut.key]] ??= []).push(i));
  for (const layer of [...new Set(cuts.map((cut) => cut.layer))].sort((a, b) => a - b)) {
    const most = Math.max(...Object.values(twins).filter(([first]) => cuts[first].layer === layer).map((some) => some.length));
    bands.push({ layer, row: 62 + 13 * (most - 1), gap: layer - (bands.length ? bands[bands.length - 1].layer : 0) - 1 });
  }
  let y = 34 + bands.reduce((sum, band) => sum + band.row + (band.gap ? 18 : 0), 0);
  const height = y + 46, bottom = y, group = svg("g"), labels = svg("g"), marks = svg("g");
  const picture = svg("svg", { width: wide, height, viewBox: `0 0 ${r1(wide)} ${height}`, role: "group", "data-figure": "circuit", "aria-label": `Circuit: ${cuts.length} paths and helper rows`, class: now.c >= 0 || now.h ? "dimmed" : null });
  const level = () => roles.forEach((role) => labels.append(svg("circle", { cx: r1(at[role]), cy: y, r: 2.5, fill: "var(--strong)" })));
  roles.forEach((role) => labels.append(svg("line", { class: "stream", x1: r1(at[role]), x2: r1(at[role]), y1: 34, y2: bottom })));
  level();
  for (const { layer, row, gap } of bands) {
    if (gap && !narrow) labels.append(svg("text", { class: "faint", x: 0, y: y - 5, "font-size": 10 }, gap > 1 ? `${layer - gap} to ${layer - 1}: no path` : `${layer - 1}: no path`));
    y -= gap ? 18 : 0;
    const from = y, to = y - row, middle = (from + to) / 2;
    labels.append(svg("text", { x: 0, y: middle - 8, "font-size": 12, "font-weight": 600 }, narrow ? `L${layer}` : `layer ${layer}`));
    [...new Set(cuts.filter((cut) => cut.layer === layer).map((cut) => cut.head))].sort((a, b) => a - b).forEach((head, n) => {
      const name = `L${layer}.H${head}`, across = narrow ? 2 : 4, x = (n % across) * 26, top = middle - 3 + Math.floor(n / across) * 20, act = () => look.head(name);
      labels.append(svg("g", { class: `headmark${now.h === name ? " chosen" : ""}`, "data-key": name, role: "button", tabindex: 0, "aria-pressed": String(now.h === name), "aria-label": `layer ${layer} head ${head}`, onclick: act, onkeydown: (event) => pressed(event, act) },
        svg("rect", { x, y: top, width: 24, height: 18, rx: 4 }), svg("text", { x: x + 12, y: top + 12.5 }, `H${head}`)));
    });
    for (const some of Object.values(twins)) if (cuts[some[0]].layer === layer) some.forEach((i, n) => {
      const [arrow, mark] = arrowOf(cuts[i], i, seen[i], n - (some.length - 1) / 2, { at, from, to, look, unit });
      group.append(arrow);
      marks.append(mark);
    });
    y = to;
    level();
  }
  roles.forEach((role, n) => {
    const size = Math.min(unit - 6, 9 + 7.5 * role.length);
    labels.append(svg("g", { class: "role" }, svg("rect", { x: r1(at[role] - size / 2), y: bottom + 12, width: r1(size), height: 22, rx: 4 }), svg("text", { x: r1(at[role]), y: bottom + 27, ...(role.length * 6.6 > size ? { textLength: r1(size - 4), lengthAdjust: "spacingAndGlyphs" } : {}) }, role)),
      n + 1 < roles.length ? svg("text", { class: "faint", x: r1(at[role] + unit / 2), y: bottom + 27, "font-size": 11, "text-anchor": "middle" }, unit - size > 18 ? "…" : "") : "");
  });
  labels.append(svg("text", { class: "quiet", x: r1(at[record.asker]), y: 20, "text-anchor": "middle", "font-size": 10.5 }, "answer"));
  picture.append(labels, group, marks);
  return picture;
}

/** An arrow from key to query, or a loop for a row without a key; and its badge. */
function arrowOf(cut, number, { off, chosen, also }, twin, { at, from, to, look, unit }) {
  const loop = cut.key === undefined, x1 = at[cut.query], x0 = loop ? x1 : at[cut.key], start = from - 5, end = to + 5, reach = (start - end) * 0.5;
  const bend = twin * Math.min(26, unit * 0.3) - (loop ? Math.min(34, unit * 0.5) : 0), paint = USES[cut.into || ""][1], weight = cut.weight ?? 0, strong = Math.min(1, weight), size = 3 + 2.2 * strong;
  const curve = `M${r1(x0)} ${r1(start)}C${r1(x0 + bend)} ${r1(start - reach)} ${r1(x1 + bend)} ${r1(end + reach)} ${r1(x1)} ${r1(end + 5)}`;
  const t = 0.5 + 0.13 * Math.max(-2.4, Math.min(2.4, twin)), u = 1 - t, badge = { x: u ** 3 * x0 + 3 * u * u * t * (x0 + bend) + 3 * u * t * t * (x1 + bend) + t ** 3 * x1, y: u ** 3 * start + 3 * u * u * t * (start - reach) + 3 * u * t * t * (end + reach) + t ** 3 * (end + 5) };
  const names = `${chosen ? " chosen" : ""}${also ? " also" : ""}${off ? " cut off" : ""}`, act = () => look.pick(number), said = `${nameOf(cut)}${off ? " (cut)" : ""}: ${loop ? "" : `attention ${decimal(weight, 2)}, `}loss ${decimal(cut.without.mean)} without it`;
  const arrow = svg("g", { class: `arrow${names}`, "data-key": number, "data-path": number, "data-tip": said, role: "button", tabindex: 0, "aria-pressed": String(chosen), "aria-label": said, onclick: act, onkeydown: (event) => pressed(event, act) },
    svg("path", { class: "hit", d: curve }), svg("path", { class: "shaft", d: curve, "stroke-width": r1(0.9 + 2.4 * strong), opacity: r1(4 + 6 * strong) / 10, style: `stroke:${paint}` }),
    svg("path", { class: "tip", d: `M${r1(x1)} ${r1(end - 1)}l${r1(-size)} ${r1(size * 1.7)}h${r1(2 * size)}z`, style: `fill:${paint}` }), svg("circle", { class: "ring", cx: r1(badge.x), cy: r1(badge.y), r: 10.5 }));
  const mark = svg("g", { class: `mark${names}`, "data-key": number, "data-tip": said, onclick: act }, svg("circle", { class: "badge", cx: r1(badge.x), cy: r1(badge.y), r: 7.5, style: off ? null : `stroke:${paint}` }), svg("text", { class: "badge-text", x: r1(badge.x), y: r1(badge.y + 3.5) }, String(cut.head)));
  return [arrow, mark];
}

/** Losses of the model, the circuit, what is cut or left, and nothing; with accuracy and probability where stored. */
function lossTable(record, now) {
  const { losses, scores, cuts, curve } = record, top = Math.max(losses.nothing ?? 0, losses.own ?? 0, losses.full ?? 0, ...cuts.map((cut) => cut.without.mean)) || 1;
  const row = (name, key, loss, interval, said) => {
    const score = scores[said];
    return el("tr", { "data-key": key, class: key === "cut" ? "all" : null }, el("th", { scope: "row" }, name),
      el("td", { class: "number", "data-loss": key }, loss === null || loss === undefined ? "–" : decimal(loss), interval ? el("small", {}, within(interval)) : null),
      Object.keys(scores).length ? [el("td", { class: "number answers", title: !score ? "not stored" : score.interval ? `95% interval ${within(score.interval)}` : null }, score ? percent(score.accuracy) : "–"), el("td", { class: "number answers" }, score ? decimal(score.probability, 2) : "–")] : null,
      el("td", { class: "meter" }, el("div", {}, loss === null || loss === undefined ? null : el("b", { style: `width:${r1((100 * loss) / top)}%` }), el("i", { style: `left:${r1((100 * record.max_loss) / top)}%` }))));
  };
  const cut = now.x >= 0 ? cuts[now.x] : null, left = now.k < record.order.length ? curve.find(([rows]) => rows === now.k) : null;
  const rows = [row("the model", "full", losses.full, null, "full"), row("the circuit", "own", losses.own, record.interval, "own")];
  if (cut) rows.push(row(`without ${nameOf(cut)}`, "cut", cut.without.mean, cut.without.interval));
  if (left) rows.push(el("tr", { class: "all", "data-key": "left" }, el("th", { scope: "row" }, `its last ${now.k} rows`), el("td", { class: "number", "data-loss": "left" }, percent(left[1]), el("small", {}, "of the way")), el("td", { colspan: 3 })));
  rows.push(row("nothing", "nothing", losses.nothing, null, "nothing"));
  return el("table", { class: "losses stored" }, el("thead", {}, el("tr", {}, el("td", {}), el("th", { scope: "col", class: "number" }, "loss"), Object.keys(scores).length ? [el("th", { scope: "col", class: "number answers" }, "right"), el("th", { scope: "col", class: "number answers", title: "mean probability of the right answer among the acceptable ones" }, "P(right)")] : null, el("td", {}))), el("tbody", {}, rows));
}

function aboutCut(record, now, look) {
  const { cuts } = record, cut = cuts[now.c], off = now.x === now.c, facts = [], fact = (name, ...value) => facts.push(el("dt", {}, name), el("dd", {}, ...value));
  if (cut.weight !== undefined) fact("attention", decimal(cut.weight, 2));
  fact("the circuit without it", `${decimal(cut.without.mean)} (${within(cut.without.interval)})`);
  if (cut.without_imposed) fact("with patterns imposed", `${decimal(cut.without_imposed.mean)} (${within(cut.without_imposed.interval)})`);
  const place = record.order.indexOf(`layer ${cut.layer} head ${cut.head} ${cut.query}`);
  if (place >= 0) fact("its row falls", `${place + 1} of ${record.order.length}, the one missed least first`);
  if (cut.feeds && cut.feeds.length) fact("feeds", usesOf(cut.feeds).slice(0, 5).map((use) => el("div", {}, use)));
  const groups = groupsOf(record, now.c), one = (i) => el("button", { type: "button", onclick: () => look.pick(i) }, nameOf(cuts[i]));
  if (groups.length) fact("redundant with", groups.map(({ cuts: some, needs }) => el("div", {}, some.filter((i) => i !== now.c).map(one), some.length > 2 ? ` ${needs} of ${some.length} will do` : "")), "Of a pair one will do; the loss without all is not stored.");
  return el("div", {}, el("h3", {}, nameOf(cut)), el("dl", {}, facts), el("div", { class: "buttons" }, el("button", { type: "button", "data-key": "cut", "aria-pressed": String(off), onclick: () => look.cut(now.c) }, off ? "Restore" : cut.key === undefined ? "Cut this row" : "Cut this path")));
}

function aboutHead(record, head, look) {
  const mine = record.cuts.map((cut, i) => [cut, i]).filter(([cut]) => headOf(cut) === head);
  return el("div", {}, el("h3", {}, `layer ${mine[0][0].layer} head ${mine[0][0].head}`), el("p", { class: "hint" }, mine.length > 1 ? `${mine.length} of its rows and paths are in the circuit, each cut alone; without all of them the loss is not stored.` : "One of its rows is in the circuit."),
    mine.map(([cut, i]) => el("div", { class: "buttons" }, el("button", { type: "button", "data-key": `cut${i}`, onclick: () => look.cut(i) }, `Cut ${cut.query}${cut.key === undefined ? "" : ` → ${cut.key}`}: ${decimal(cut.without.mean)} (${within(cut.without.interval)})`))));
}

function aboutAll({ checks }) {
  const all = Object.values(checks);
  return el("div", {}, el("p", { class: "hint" }, "Choose an arrow, a head, or a row of the table below, and cut it."),
    el("ul", { class: "parts" }, all.map(({ name, outcome }) => el("li", { class: outcome === "passed" ? null : outcome === "failed" ? "fail" : "open" }, el("b", {}, name.replaceAll("_", " ")), ` ${outcome}`))), all.length ? el("p", { class: "hint" }, "What each found stands below.") : null);
}

/** The share of the way over the number of rows, and a slider that takes rows away in the order in which they fall. */
function fewer(record, stops, now, look, width) {
  const { curve, baselines } = record, all = record.order.length, most = curve[curve.length - 1][0], tall = 190, left = 34, right = 12, low = Math.min(0, baselines.untrained ?? 0, ...curve.map(([, share]) => share)), high = Math.max(1, ...curve.map(([, share]) => share)) + 0.05;
  const x = (rows) => left + ((width - left - right) * Math.log1p(rows)) / Math.log1p(most), y = (share) => 8 + (tall - 34) * (1 - (share - low) / (high - low));
  const known = [["attribution", "by attribution"], ["acdc", "by ACDC's rule"], ["random", `the best of ${baselines.drawn} random circuits`], ["untrained", "the circuit with untrained heads"]].filter(([name]) => typeof baselines[name] === "number");
  const drawing = svg("svg", { width, height: tall, viewBox: `0 0 ${width} ${tall}`, role: "img", "aria-label": "Share of the way from nothing to the model, over rows with their own patterns" });
  for (const share of [0, 0.5, 1]) drawing.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(share), y2: y(share) }), svg("text", { class: "quiet", x: left - 6, y: y(share) + 4, "font-size": 10.5, "text-anchor": "end" }, percent(share)));
  drawing.append(svg("line", { class: "rule", x1: x(all), x2: x(all), y1: 8, y2: tall - 26 }), svg("line", { class: "playhead", x1: x(now.k), x2: x(now.k), y1: 8, y2: tall - 26 }),
    svg("path", { class: "curve", d: curve.map(([rows, share], i) => `${i ? "L" : "M"}${r1(x(rows))} ${r1(y(share))}`).join("") }),
    ...known.map(([name]) => svg("circle", { cx: x(all), cy: y(baselines[name]), r: 3.5, fill: "var(--raised)", stroke: "var(--bad)", "data-tip": `${name} ${decimal(baselines[name], 2)}` })));
  const near = stops.filter(([rows]) => rows <= now.k).pop();
  if (near) drawing.append(svg("circle", { cx: x(near[0]), cy: y(near[1]), r: 4.5, fill: "var(--ink)" }));
  for (const rows of [0, all, most]) drawing.append(svg("text", { class: "quiet", x: x(rows), y: tall - 8, "font-size": 10.5, "text-anchor": rows === most ? "end" : "middle" }, rows === most ? `${count(rows)} rows` : count(rows)));
  const range = el("input", { type: "range", min: 0, max: all, value: now.k, step: 1, "aria-label": "Rows left", "aria-valuetext": `${now.k} rows${near ? `, ${percent(near[1])} of the way` : ""}`, oninput: (event) => look.keep(Number(event.target.value)) });
  return [drawing, el("div", { class: "slider", style: "--left:118px" }, range, el("output", {}, `${now.k} of ${all} rows`, el("small", {}, near ? `${percent(near[1])} of the way` : ""))),
    el("p", { class: "hint" }, `The row that is missed least falls first; dashed: the circuit.${known.length ? ` Circles, ${all} rows too: ${known.map(([name, words]) => `${words} ${percent(baselines[name])}`).join(", ")}.` : ""}`)];
}

/** Every cut as a bar with its interval, the dearest first. */
function cutTable(record, seen, look) {
  const { cuts, losses, max_loss: most } = record, top = Math.max(most, losses.own ?? 0, ...cuts.map((cut) => cut.without.interval[1])) || 1, share = (value) => r1((100 * Math.max(0, value)) / top);
  const sorted = cuts.map((cut, i) => [cut, i]).sort(([a], [b]) => b.without.mean - a.without.mean);
  return [el("p", { class: "hint" }, `The ${record.loss} of the circuit without one path or row, 95% intervals. Blue: the circuit with all. Dashed: what it may lose.`),
    el("table", { class: "cuts" }, el("tbody", {}, sorted.map(([cut, i]) => el("tr", { "data-key": i, class: seen[i].chosen ? "chosen" : null },
      el("th", { scope: "row" }, el("button", { type: "button", "aria-pressed": String(seen[i].chosen), onclick: () => look.cut(i) }, nameOf(cut))),
      el("td", {}, el("div", { class: "whisker" }, el("b", { style: `width:${share(cut.without.mean)}%` }), el("u", { style: `left:${share(cut.without.interval[0])}%;width:${r1(share(cut.without.interval[1]) - share(cut.without.interval[0]))}%` }), el("i", { style: `left:${share(losses.own ?? 0)}%` }), el("i", { class: "most", style: `left:${share(most)}%` }))),
      el("td", { class: "number" }, decimal(cut.without.mean)), el("td", { class: "number" }, within(cut.without.interval))))))];
}

function help() {
  const rows = [["Tab Enter", "to an arrow or head; choose it"], ["x", "cut or restore what is chosen"], ["← →", "a row fewer, a row more"], ["0", "restore all"], ["Esc", "choose nothing"], ["?", "this"]];
  $("help").replaceChildren(el("h2", { id: "help-title" }, "Keys"), el("dl", {}, rows.flatMap(([key, words]) => [el("dt", {}, key), el("dd", {}, words)])),
    el("p", { class: "hint" }, "Nothing is computed here. Each loss is that of the circuit with the model's own patterns, everything else off, without one path: without that key where the row attends to others too, else without the whole row."),
    el("form", { method: "dialog" }, el("button", {}, "Close")));
  $("help").showModal();
}

start();
