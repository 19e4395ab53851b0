// All heads at a glance, layers down and heads across: role maps at the playhead, or this prompt's own patterns.

/** Weight from role to role in a head: of the record at checkpoint t, or live. */
function roleMap(model, t, layer, head, other) {
  const roles = 2 * model.problem.hops + 1, square = roles * roles;
  if (!model.maps || !model.arrays) return null;
  const from = (((t * model.shape.layers + layer) * model.shape.heads + head) * 2 + other) * square;
  const bytes = model.arrays.maps.subarray(from, from + square);
  return (q, k) => bytes[q * roles + k] / 255;
}

/** The same of one prompt, averaged over its chains. */
function promptRoleMap(model, prompt, pattern, head, other) {
  const roles = 2 * model.problem.hops + 1, length = prompt.role.length, { chains } = model.problem, sums = new Float64Array(roles * roles);
  for (let q = 0; q < length; q++)
    for (let k = 0; k < length; k++)
      if (Number(prompt.chain[q] !== prompt.chain[k]) === other) sums[prompt.role[q] * roles + prompt.role[k]] += pattern[(head * length + q) * length + k];
  return (q, k) => sums[q * roles + k] / chains;
}

/** What a tile shows: its side and the weight of each of its cells. */
function headMap(model, look, layer, head) {
  const roles = 2 * model.problem.hops + 1, { view, live, prompt } = look;
  if (view === "prompt" && live) {
    const length = prompt.role.length, at = head * length * length;
    return { side: length, weight: (q, k) => live.patterns[layer][at + q * length + k] };
  }
  const other = view === "others" ? 1 : 0;
  const map = roleMap(model, look.t, layer, head, other) || (live ? promptRoleMap(model, prompt, live.patterns[layer], head, other) : null);
  if (!map) return null;
  if (view !== "circuit") return { side: roles, weight: map };
  const rows = new Set(model.paths.filter((path) => path.layer === layer && path.head === head).map((path) => path.query));
  return { side: roles, weight: (q, k) => (rows.has(q) ? map(q, k) : 0) };
}

/** The grid on one canvas. @param {object} look  { t, view, live, prompt, chosen, pick(head) } */
function headsPicture(model, look, width) {
  const { layers, heads } = model.shape, across = heads > 1 ? heads : Math.max(4, Math.min(layers, Math.floor(width / 92)));
  const down = heads > 1 ? layers : Math.ceil(layers / across), most = Math.max(76, Math.min(132, 520 / down - 20));
  const space = width < 520 ? 5 : 9, tile = Math.floor(Math.min(most, (width - 2) / across - space)), pitch = tile + space, label = tile < 48 ? 11 : 16;
  const high = down * (pitch + label);
  const canvas = el("canvas", {
    tabindex: 0, role: "img", "aria-label": `Attention of ${layers} × ${heads} heads. Arrow keys move, the inspector tells.`,
    onclick: (event) => at(event) >= 0 && look.pick(at(event)),
    onpointermove: (event) => {
      const number = at(event);
      event.target.dataset.tip = number < 0 ? "" : `layer ${Math.floor(number / heads) + 1} head ${(number % heads) + 1}${inUse.has(number) ? ", in the circuit" : gone.has(number) ? ", pruned in training: it writes nothing in the end" : ""}`;
    },
    onkeydown: (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      look.pick(Math.max(0, Math.min(layers * heads - 1, Math.max(0, look.chosen) + step)));
    },
  });
  const scale = Math.min(3, window.devicePixelRatio || 1), draw = canvas.getContext("2d"), color = ramp(), style = getComputedStyle(document.documentElement);
  canvas.width = across * pitch * scale;
  canvas.height = high * scale;
  canvas.style.width = across * pitch + "px";
  canvas.style.height = high + "px";
  draw.scale(scale, scale);
  const at = (event) => {
    const column = Math.floor(event.offsetX / pitch), row = Math.floor(event.offsetY / (pitch + label)), number = row * across + column;
    return column < across && number < layers * heads ? number : -1;
  };
  const inUse = new Set(model.paths.map((path) => path.layer * heads + path.head)), gone = new Set(model.gone);
  for (let layer = 0; layer < layers; layer++)
    for (let head = 0; head < heads; head++) {
      const number = layer * heads + head, column = heads > 1 ? head : number % across, row = heads > 1 ? layer : Math.floor(number / across);
      const x = column * pitch + 0.5, y = row * (pitch + label) + label;
      draw.font = `${inUse.has(number) ? 600 : 400} ${tile < 48 ? 7.5 : 11}px ${style.getPropertyValue("--sans")}`;
      draw.fillStyle = style.getPropertyValue(inUse.has(number) ? "--ink" : "--faint");
      draw.fillText(heads > 1 ? (tile < 48 ? `${layer + 1}.${head + 1}` : `L${layer + 1} H${head + 1}`) : `layer ${layer + 1}`, x, y - 4);
      draw.globalAlpha = gone.has(number) ? 0.25 : 1;
      paintMap(draw, headMap(model, look, layer, head), x, y, tile, color);
      draw.globalAlpha = 1;
      draw.lineWidth = number === look.chosen ? 2 : 1;
      draw.strokeStyle = style.getPropertyValue(number === look.chosen ? "--ink" : inUse.has(number) ? "--strong" : "--line");
      draw.strokeRect(x, y, tile, tile);
    }
  return canvas;
}

function paintMap(draw, map, x, y, tile, color) {
  draw.fillStyle = color(0);
  draw.fillRect(x, y, tile, tile);
  if (!map) return;
  const cell = tile / map.side;
  for (let q = 0; q < map.side; q++)
    for (let k = 0; k < map.side; k++) {
      const weight = map.weight(q, k);
      if (weight < 0.004) continue;
      draw.fillStyle = color(tint(weight));
      draw.fillRect(x + k * cell, y + q * cell, cell + 0.3, cell + 0.3);
    }
}

/** One map, large, with its roles: rows attend to columns. */
function largeMap(model, look, layer, head, side) {
  const map = headMap(model, look, layer, head), { hops } = model.problem;
  if (!map) return el("p", { class: "hint" }, "No map of this head is at hand.");
  const margin = map.side > 24 ? 0 : 30, box = side - margin, cell = box / map.side;
  const picture = svg("svg", { width: side, height: side, viewBox: `0 0 ${side} ${side}`, role: "img", "aria-label": `Attention of layer ${layer + 1} head ${head + 1}, rows attend to columns`, "data-figure": "map" });
  const weights = [];
  for (let q = 0; q < map.side; q++)
    for (let k = 0; k < map.side; k++) {
      const weight = map.weight(q, k);
      if (weight >= 0.004) weights.push(svg("rect", { x: r1(margin + k * cell), y: r1(q * cell), width: r1(cell), height: r1(cell), fill: "var(--ink)", "fill-opacity": Math.round(tint(weight) * 100) / 100, "data-tip": margin ? `${model.roles[q]} → ${model.roles[k]}: ${number2(weight)}` : number2(weight) }));
    }
  picture.append(svg("rect", { x: margin, y: 0, width: box, height: box, fill: "none", stroke: "var(--line)" }), ...weights);
  if (margin) model.roles.forEach((name, role) => {
    const spans = () => [...(role % 2 ? ["›"] : []), ...symbolSpans(symbolOf(role, hops), role === 2 * hops ? "?" : role % 2 ? "" : "›")];
    picture.append(svg("text", { class: "quiet", x: margin - 4, y: (role + 0.5) * cell + 4, "text-anchor": "end", "font-size": 11 }, spans()),
      svg("text", { class: "quiet", x: margin + (role + 0.5) * cell, y: box + 15, "text-anchor": "middle", "font-size": 11 }, spans()));
  });
  return picture;
}
