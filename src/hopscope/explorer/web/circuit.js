// The circuit as a picture: layers up, positions across, an arrow for each path from what is read to who reads.

/** Where everything stands. @param {"chain"|"prompt"} axis */
function layout(model, width, axis, prompt) {
  const { problem, used } = model, narrow = width < 520, left = narrow ? 50 : 74, right = 14;
  const columns = axis === "chain" ? chainColumns(problem) : promptColumns(problem, prompt);
  const last = columns[columns.length - 1].at, least = axis === "chain" ? 0 : 19;
  const unit = Math.max(least, (width - left - right - 24) / last), wide = left + right + 24 + unit * last;
  for (const column of columns) column.x = left + 12 + column.at * unit;
  const row = Math.max(58, Math.min(104, 470 / Math.max(1, used.length))), top = axis === "chain" ? 34 : 46;
  const levels = [{ layer: -1 }, ...used.map((layer) => ({ layer }))];
  let y = top + levels.slice(1).reduce((sum, level, i) => sum + row + (gap(i) ? 16 : 0), 0);
  const height = y + 58;
  levels.forEach((level, i) => {
    if (i) y -= row + (gap(i - 1) ? 16 : 0);
    level.y = y;
  });
  return { columns, levels, unit, left, wide, height, row, narrow };

  /** Whether layers between the used layer `i` and the one before it are idle. */
  function gap(i) {
    return used[i] - (i ? used[i - 1] : -1) > 1;
  }
}

function chainColumns(problem) {
  const columns = [];
  let at = 0;
  for (const pair of problem.blocks) {
    columns.push({ at, role: 2 * (pair - 1), chain: 0 }, { at: at + 1, role: 2 * (pair - 1) + 1, chain: 0 });
    at += 2.45;
  }
  return [...columns, { at, role: 2 * problem.hops, chain: 0 }];
}

function promptColumns(problem, prompt) {
  const columns = [], block = 2 * problem.chains;
  prompt.role.forEach((role, position) => {
    const pairs = Math.min(position, problem.hops * block) >> 1, blocks = Math.floor(Math.min(position, problem.hops * block) / block);
    columns.push({ at: position + 0.35 * pairs + 0.9 * blocks, role, chain: prompt.chain[position], position });
  });
  return columns;
}

/**
 * The picture. @param {object} look  { t, x, axis, prompt, known: whether who knows what is shown, live: one prompt computed,
 *   along: mean attention by path or null, chosen, also, pick(path, event) }
 */
function circuitPicture(model, look, width) {
  const place = layout(model, width, look.axis, look.prompt), { columns, levels, wide, height } = place;
  const picture = svg("svg", {
    width: wide, height, viewBox: `0 0 ${wide} ${height}`, role: "group", "data-figure": "circuit",
    "aria-label": `Circuit of ${model.name}: ${model.paths.length} paths`, class: look.chosen >= 0 ? "dimmed" : null,
  });
  picture.append(frame(model, place, look), arrows(model, place, look));
  if (look.axis === "chain" && look.known) picture.append(knowledge(model, place, look));
  else for (const level of levels) for (const column of columns) picture.append(svg("circle", { cx: column.x, cy: level.y, r: look.axis === "chain" ? 2.5 : 1.5, fill: look.axis === "chain" ? "var(--strong)" : chainColor(column.chain) }));
  picture.append(look.axis === "chain" ? chainAxis(model, place) : promptAxis(model, place, look));
  return picture;
}

/** Streams, levels, and names of the layers. */
function frame(model, place, look) {
  const group = svg("g"), { columns, levels, narrow } = place, top = levels[levels.length - 1].y, bottom = levels[0].y;
  for (const column of columns) group.append(svg("line", { class: "stream", x1: column.x, x2: column.x, y1: top, y2: bottom }));
  levels.forEach((level, i) => {
    if (!i) return;
    const heads = [...new Set(model.paths.filter((path) => path.layer === level.layer).map((path) => path.head + 1))].sort((a, b) => a - b);
    const y = level.y + place.row / 2;
    group.append(svg("text", { x: 0, y: y - 2, "font-size": 12, "font-weight": 600 }, narrow ? `L${level.layer + 1}` : `layer ${level.layer + 1}`));
    if (model.shape.heads > 1) group.append(svg("text", { class: "quiet", x: 0, y: y + 12, "font-size": 10.5 }, (narrow ? "h" : heads.length > 1 ? "heads " : "head ") + heads.join(narrow ? "," : ", ")));
    const before = levels[i - 1], idle = level.layer - before.layer - 1;
    if (idle > 0) {
      const mid = before.y - 8, last = columns[columns.length - 1].x;
      group.append(svg("line", { class: "level", x1: place.left, x2: last, y1: mid, y2: mid }));
      if (!narrow) group.append(svg("text", { class: "faint", x: 0, y: mid + 3.5, "font-size": 10 }, idle === 1 ? `${before.layer + 2} idle` : `${before.layer + 2}–${level.layer} idle`));
    }
  });
  return group;
}

/** One arrow a path, on the prompt axis one a chain; their numbers lie on top of all. */
function arrows(model, place, look) {
  const shafts = svg("g"), marks = svg("g"), twins = new Map(), alike = ({ layer, query, key }) => [layer, query, key].join();
  for (const path of model.order) twins.set(alike(model.paths[path]), [...(twins.get(alike(model.paths[path])) || []), path]);
  const drawn = [...model.order].sort((a, b) => (a === look.chosen) - (b === look.chosen) || strength(model, look, a) - strength(model, look, b));
  for (const path of drawn) {
    const same = twins.get(alike(model.paths[path]));
    const [drawn, mark] = arrow(model, place, look, path, same.indexOf(path) - (same.length - 1) / 2);
    shafts.append(drawn);
    marks.append(mark);
  }
  return svg("g", {}, shafts, marks);
}

/** Mean attention along a path at the playhead, or live. */
function strength(model, look, path) {
  if (look.along) return look.along[path];
  return model.emergence ? model.emergence.paths[path].attention[look.t] : model.paths[path].weight;
}

function arrow(model, place, look, number, twin) {
  const path = model.paths[number], level = place.levels.findIndex((one) => one.layer === path.layer);
  const cut = look.x.includes(number), step = model.steps[look.t], born = model.born[number] === null ? !model.emergence : model.born[number] <= step;
  const names = [born && "born", cut && "cut", number === look.chosen && "chosen", number === look.also && "also"];
  const weight = strength(model, look, number), state = names.filter(Boolean).join(" "), group = svg("g", {
    class: `arrow ${state}`, "data-path": number, tabindex: 0, role: "button", "aria-pressed": String(number === look.chosen),
    "aria-label": `${model.birth[number]}: ${model.say(path)}, attention ${number2(weight)}${cut ? ", cut" : ""}`,
    "data-tip": tipOf(model, number, weight, cut), onclick: (event) => look.pick(number, event),
    onkeydown: (event) => pressed(event, () => look.pick(number, event)),
  });
  const from = place.levels[level - 1].y, to = place.levels[level].y, ends = [];
  for (const chain of look.axis === "chain" ? [0] : Array.from({ length: model.problem.chains }, (_, c) => c)) {
    const find = (role) => place.columns.find((column) => column.role === role && column.chain === chain).x;
    const one = look.live && look.axis === "prompt" ? look.live.along[number][chain] : weight;
    ends.push(shaft(group, find(path.key), from, find(path.query), to, cut ? 0.3 : one, twin, look.axis === "prompt" ? chainColor(chain) : null));
  }
  const at = ends[ends.length - 1], mark = svg("g", { class: `mark ${state}`, "data-key": number, "data-tip": tipOf(model, number, weight, cut), onclick: (event) => look.pick(number, event) });
  if (look.axis === "chain") {
    mark.append(svg("circle", { class: "badge", cx: r1(at.x), cy: r1(at.y), r: 8 }), svg("text", { class: "badge-text", x: r1(at.x), y: r1(at.y + 3.6) }, String(model.birth[number])));
    group.append(svg("circle", { class: "ring", cx: r1(at.x), cy: r1(at.y), r: 11 }));
  }
  return [group, mark];
}

const number2 = (value) => decimal(value, 2);

/** A curve from below to above with a head; gives where its badge goes. */
function shaft(group, x0, y0, x1, y1, weight, twin, color) {
  const gap = color ? 3 : 9, bend = twin * (color ? 6 : 26), start = y0 - gap, end = y1 + gap, reach = (start - end) * 0.55;
  const curve = `M${r1(x0)} ${r1(start)}C${r1(x0 + bend)} ${r1(start - reach)} ${r1(x1 + bend)} ${r1(end + reach)} ${r1(x1)} ${r1(end + 5)}`;
  const strong = Math.max(0, Math.min(1, weight)), width = (color ? 0.6 : 0.9) + (color ? 2 : 2.6) * strong, opacity = 0.14 + 0.86 * strong;
  const paint = color ? { style: `stroke:${color}` } : {};
  group.append(svg("path", { class: "hit", d: curve }), svg("path", { class: "shaft", d: curve, "stroke-width": r1(width), opacity: r1(opacity * 100) / 100, ...paint }));
  const size = 3 + 2.4 * strong;
  group.append(svg("path", { class: "tip", d: `M${r1(x1)} ${r1(end - 1)}l${r1(-size)} ${r1(size * 1.7)}h${r1(2 * size)}z`, opacity: r1(opacity * 100) / 100, ...(color ? { style: `fill:${color}` } : {}) }));
  const t = 0.48 + 0.13 * Math.max(-2, Math.min(2, twin)), u = 1 - t;
  return { x: u ** 3 * x0 + 3 * u * u * t * (x0 + bend) + 3 * u * t * t * (x1 + bend) + t ** 3 * x1, y: u ** 3 * start + 3 * u * u * t * (start - reach) + 3 * u * t * t * (end + reach) + t ** 3 * (end + 5) };
}

function tipOf(model, number, weight, cut) {
  const path = model.paths[number], born = model.born[number];
  return `${model.birth[number]} · ${model.say(path)}${cut ? " (cut)" : ""}\nattention ${number2(weight)}` + (model.emergence ? `, ${born === null ? "never crosses 0.5" : `crosses 0.5 at step ${count(born)}`}` : "");
}
