// Who knows what: at every level and position the symbols that can have arrived along paths that are not cut, and the bound.

/** A strip of D + 1 cells at each position: filled, can be known here along the paths; dark outline, by any network so deep. */
function knowledge(model, place, look) {
  const { problem } = model, kept = model.paths.filter((_, i) => !look.x.includes(i));
  const along = alongPaths(model.theory.holdings[0].map(BigInt), model.shape.layers, kept), group = svg("g", { class: "knowledge" });
  const size = Math.max(0.5, Math.min(8, (place.unit * 0.86) / (problem.hops + 1) - 1));
  for (const level of place.levels)
    for (const column of place.columns) {
      const mine = along[level.layer + 1][column.role], bound = BigInt(model.theory.holdings[level.layer + 1][column.role]);
      group.append(glyph(problem.hops, column.x, level.y, size, mine, bound, saysWhat(model, level.layer + 1, column.role, mine, bound)));
    }
  return group;
}

function glyph(hops, x, y, size, mine, bound, words) {
  const wide = (hops + 1) * (size + 1) - 1, group = svg("g", { class: "glyph", "data-tip": words, role: "img", "aria-label": words });
  group.append(svg("rect", { class: "back", x: r1(x - wide / 2 - 2), y: r1(y - size / 2 - 2), width: r1(wide + 4), height: r1(size + 4) }));
  for (let k = 0; k <= hops; k++) {
    const kind = knows(mine, k) ? "known" : knows(bound, k) ? "bound" : "never";
    group.append(svg("rect", { class: `cell ${kind}`, x: r1(x - wide / 2 + k * (size + 1)), y: r1(y - size / 2), width: r1(size), height: r1(size), rx: 1 }));
  }
  return group;
}

function saysWhat(model, layers, role, mine, bound) {
  const run = (held) => {
    const there = [];
    for (let k = 0; k <= model.problem.hops; k++) if (knows(held, k)) there.push(k);
    return there.length > 1 ? `x${there[0]} to x${there[there.length - 1]}` : there.length ? `x${there[0]}` : "nothing";
  };
  const when = layers === 0 ? "Before the first layer" : `After layer ${layers}`;
  return `${when}, ${model.roles[role]} can hold ${run(mine)} along these paths; no network of ${layers} layer${layers === 1 ? "" : "s"} can give it more than ${run(bound)}.`;
}
