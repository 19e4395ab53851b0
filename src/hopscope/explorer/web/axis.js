// Under the circuit: one chain by role, or the tokens of this prompt by chain.

function chainAxis(model, place) {
  const group = svg("g"), y = place.levels[0].y + 30, { hops } = model.problem;
  for (const column of place.columns) {
    const query = column.role === 2 * hops;
    group.append(svg("text", { x: column.x, y, "text-anchor": "middle", "font-size": 15 }, symbolSpans(symbolOf(column.role, hops), query ? "?" : "")));
  }
  for (let i = 0; i + 1 < place.columns.length; i += 2) {
    const a = place.columns[i].x - 8, b = place.columns[i + 1].x + 8;
    group.append(svg("path", { class: "pair", d: `M${r1(a)} ${y + 9}v4H${r1(b)}v-4` }));
    if (!place.narrow) group.append(svg("text", { class: "quiet", x: (a + b) / 2, y: y + 25, "text-anchor": "middle", "font-size": 10.5 }, `pair ${(place.columns[i].role >> 1) + 1}`));
  }
  const asker = place.columns[place.columns.length - 1], top = place.levels[place.levels.length - 1].y;
  group.append(svg("text", { class: "quiet", x: asker.x, y: y + 25, "text-anchor": "middle", "font-size": 10.5 }, "query"));
  group.append(svg("text", { class: "quiet", x: asker.x, y: top - 14, "text-anchor": "middle", "font-size": 10.5 }, "answer"));
  return group;
}

/** Tokens by chain; above each query, a mark for every hop asked for: filled where the nearest symbol is the right one. */
function promptAxis(model, place, look) {
  const group = svg("g"), y = place.levels[0].y + 14, { hops, target_hops: asked } = model.problem, wide = Math.min(26, place.unit * 0.98);
  for (const column of place.columns) {
    const color = chainColor(column.chain), name = letter(column.chain), symbol = symbolOf(column.role, hops);
    const token = svg("g", { class: "token", "data-tip": `position ${column.position + 1}: ${name}${symbol}, ${model.roles[column.role]} of chain ${name.toUpperCase()}` },
      svg("rect", { x: r1(column.x - wide / 2), y, width: r1(wide), height: 24, rx: 3, style: `stroke:${color}` }),
      svg("text", { x: r1(column.x), y: y + 16, style: `fill:${color}`, "font-weight": 600 }, name, svg("tspan", { "font-size": "75%", dy: "0.25em" }, String(symbol))));
    group.append(token);
    if (column.role === 2 * hops && look.live) group.append(marks(model, place, look, column, asked, color));
  }
  place.columns.forEach((column, i) => {
    if (i % (2 * model.problem.chains)) return;
    const label = column.role === 2 * hops ? "queries" : `pairs ${(column.role >> 1) + 1}`;
    group.append(svg("text", { class: "quiet", x: column.x - wide / 2, y: y + 39, "font-size": 10.5 }, label));
  });
  return group;
}

function marks(model, place, look, column, asked, color) {
  const top = place.levels[place.levels.length - 1].y - 10, found = look.live.nearest[column.chain];
  const words = asked.map((hop, n) => `x${hop}: ${letter(found[n])}${hop} ${found[n] === column.chain ? "right" : "wrong"}`).join(", ");
  const group = svg("g", { "data-tip": `Answer of chain ${letter(column.chain).toUpperCase()}, by the nearest symbol: ${words}`, role: "img", "aria-label": words });
  asked.forEach((_, n) => group.append(svg("rect", {
    class: "right", x: r1(column.x - 3.5), y: top - 8 * (n + 1), width: 7, height: 6, rx: 1,
    style: `stroke:${color};fill:${found[n] === column.chain ? color : "none"}`,
  })));
  return group;
}
