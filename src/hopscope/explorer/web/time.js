// Training: losses by hop with chance and 0.5, a strip for each path in the order of births, one playhead.

const DASHES = ["", "6 3", "2 3", "9 3 2 3", "1 2", "12 4"];

/** @param {object} look  { t, chosen, x, pick, at(step) } */
function timePicture(model, look, width) {
  const narrow = width < 520, left = narrow ? 62 : 138, right = 34, tall = 170, strip = 15;
  const rows = model.emergence ? model.order.length : 0, height = tall + 22 + rows * (strip + 3) + 26;
  const x = (step) => left + ((width - left - right) * step) / model.total, y = (loss) => 12 + (tall - 24) * (1 - Math.min(loss, 1.1) / 1.1);
  const picture = svg("svg", {
    width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Losses and attention over training", "data-figure": "training",
    onclick: (event) => {
      if (event.target.closest(".strip") && event.offsetX < left) return;
      look.at(((event.offsetX - left) / (width - left - right)) * model.total);
    },
  });
  picture.append(lossAxes(model, x, y, left, width - right), curves(model, x, y, width - right));
  const bottom = tall + 12 + rows * (strip + 3);
  if (rows) picture.append(strips(model, look, x, tall + 8, strip, left, narrow));
  for (const step of ticks(model.total, narrow ? 3 : 6)) picture.append(svg("text", { class: "quiet", x: x(step), y: bottom + 16, "text-anchor": "middle", "font-size": 11 }, count(step)));
  const now = x(model.steps[look.t]);
  picture.append(svg("line", { class: "playhead", x1: now, x2: now, y1: 6, y2: bottom + 2 }), svg("circle", { cx: now, cy: 6, r: 3.5, fill: "var(--ink)" }));
  return picture;
}

function ticks(total, most) {
  const raw = total / most, power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= raw), found = [];
  for (let at = 0; at <= total; at += step) found.push(at);
  return found;
}

function lossAxes(model, x, y, left, end) {
  const group = svg("g"), chance = 1 - 1 / model.problem.chains;
  for (const loss of [0, 1]) group.append(svg("line", { class: "grid", x1: left, x2: end, y1: y(loss), y2: y(loss) }));
  for (const loss of [chance, 0.5]) group.append(svg("line", { class: "rule", x1: left, x2: end, y1: y(loss), y2: y(loss) }));
  for (const [loss, words] of [[0, "0"], [1, "1"], [0.5, "0.5"], [chance, left > 100 ? `chance ${+chance.toFixed(2)}` : chance.toFixed(2)]])
    group.append(svg("text", { class: "quiet", x: left - 8, y: y(loss) + 4, "text-anchor": "end", "font-size": 11 }, words));
  if (left > 100) group.append(svg("text", { x: 0, y: 18, "font-size": 12, "font-weight": 600 }, "loss by hop"));
  return group;
}

/** A line for each hop, known by dash and name; hue is for chains. */
function curves(model, x, y, end) {
  const group = svg("g"), names = svg("g"), rows = lossRows(model), hops = model.problem.target_hops, placed = [];
  if (!rows) return svg("text", { class: "quiet", x: (x(0) + end) / 2, y: y(0.6), "text-anchor": "middle", "font-size": 13 }, "no losses were recorded");
  hops.forEach((hop, n) => {
    let line = "", before = null, label = null;
    rows.steps.forEach((step, i) => {
      const loss = rows.at(i, n);
      if (!Number.isFinite(loss)) return (before = null);
      line += `${before === null ? "M" : "L"}${r1(x(step))} ${r1(y(loss))}`;
      if (before !== null && before > 0.5 && loss <= 0.5 && !label) label = [x(step), y(0.5)];
      before = loss;
    });
    group.append(svg("path", { class: "curve", d: line, "stroke-dasharray": DASHES[n % DASHES.length] || null }));
    let [at, up] = label ? [label[0] + 5, label[1] - 7] : [end + 5, y(before === null ? 1 : before) + 4];
    while (placed.some((other) => Math.abs(other[0] - at) < 17 && Math.abs(other[1] - up) < 14)) label ? (at += 16) : (up -= 14);
    placed.push([at, up]);
    names.append(svg("text", { x: at, y: up, "font-size": 13, stroke: "var(--raised)", "stroke-width": 3, "paint-order": "stroke" }, symbolSpans(hop)));
  });
  group.append(names);
  return group;
}

/** Losses by hop over training: of the metrics, or else of the checkpoints. */
function lossRows(model) {
  const hops = model.problem.target_hops.length;
  if (model.metrics && model.arrays) return { steps: model.metrics.steps, at: (row, hop) => model.arrays.metrics[row * (hops + 1) + 1 + hop] };
  if (model.emergence) return { steps: model.steps, at: (row, hop) => model.emergence.partial_losses[row][hop] };
  return null;
}

function strips(model, look, x, top, tall, left, narrow) {
  const group = svg("g"), { steps } = model;
  model.order.forEach((path, place) => {
    const y = top + place * (tall + 3), one = model.paths[path], weights = model.emergence.paths[path].attention, born = model.born[path];
    const row = svg("g", {
      class: `strip${path === look.chosen ? " chosen" : ""}`, "data-path": path, tabindex: 0, role: "button", "aria-label": `${place + 1}: ${model.say(one)}`,
      "data-tip": tipOf(model, path, weights[look.t], look.x.includes(path)), onclick: (event) => event.offsetX < left && look.pick(path, event),
      onkeydown: (event) => pressed(event, () => look.pick(path, event)),
    });
    row.append(svg("text", { x: 0, y: y + 11.5, "font-size": 11, "font-weight": 600 }, String(place + 1)),
      svg("text", { class: "quiet", x: 18, y: y + 11.5, "font-size": 11 }, narrow ? `L${one.layer + 1}` + (model.shape.heads > 1 ? `.${one.head + 1}` : "") : `L${one.layer + 1}${model.shape.heads > 1 ? `.H${one.head + 1}` : ""}  ${model.roles[one.query]} → ${model.roles[one.key]}`));
    steps.forEach((step, i) => {
      const a = x(i ? (steps[i - 1] + step) / 2 : 0), b = x(i + 1 < steps.length ? (step + steps[i + 1]) / 2 : step);
      if (b > a) row.append(svg("rect", { x: r1(a), y, width: r1(b - a + 0.4), height: tall, fill: "var(--ink)", "fill-opacity": Math.round(weights[i] ** 1.2 * 92) / 100 }));
    });
    row.append(svg("rect", { class: "frame", x: left, y, width: x(model.total) - left, height: tall }));
    if (born !== null) for (const name of ["halo", "birth"]) row.append(svg("line", { class: name, x1: x(born), x2: x(born), y1: y - 1, y2: y + tall + 1 }));
    group.append(row);
  });
  return group;
}
