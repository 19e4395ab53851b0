// What one takes away: SVG with presentation attributes only, PNG, CSV, JSON, TikZ, and a copy of the page with this view.

const PRESENTED = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "font-family", "font-size", "font-style", "font-weight", "text-anchor"];
const ONLY_TEXT = new Set(["font-family", "font-size", "font-style", "font-weight", "text-anchor"]);

/** A drawing that stands alone: colours resolved, no class, no style, nothing to click. @param {SVGElement} drawn */
function plainSvg(drawn) {
  const copy = drawn.cloneNode(true), ground = getComputedStyle(document.documentElement).getPropertyValue("--raised").trim();
  const theirs = [drawn, ...drawn.querySelectorAll("*")], mine = [copy, ...copy.querySelectorAll("*")];
  mine.forEach((node, i) => {
    const style = getComputedStyle(theirs[i]), text = node.tagName === "text" || node.tagName === "tspan";
    for (const { name } of [...node.attributes]) if (/^(class|style|role|tabindex|aria-|data-|on|paint-order)/.test(name)) node.removeAttribute(name);
    if (node.tagName === "g" || node.tagName === "svg") return void (style.opacity !== "1" && node.setAttribute("opacity", style.opacity));
    if (node.tagName === "text" && style.stroke !== "none") node.before(groundOf(theirs[i], ground));
    for (const name of PRESENTED) {
      if (ONLY_TEXT.has(name) && !text) continue;
      if (text && name.startsWith("stroke")) {
        node.removeAttribute(name);
        continue;
      }
      let value = style.getPropertyValue(name);
      if (name === "font-family") value = /Iowan/.test(value) ? "Palatino, Georgia, serif" : "Helvetica, Arial, sans-serif";
      if (value && value !== "none" && value !== "normal" || name === "fill" || name === "stroke") node.setAttribute(name, value.replace(/px/g, "").replace("rgba(0, 0, 0, 0)", "none"));
    }
  });
  for (const node of copy.querySelectorAll(".hit, [stroke='none'][fill='none']")) node.remove();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.prepend(svg("rect", { x: 0, y: 0, width: "100%", height: "100%", fill: ground }));
  return new XMLSerializer().serializeToString(copy);
}

/** In place of the halo of a text, which without paint-order would lie over its letters. */
function groundOf(text, fill) {
  const { x, y, width, height } = text.getBBox();
  return svg("rect", { x: r1(x), y: r1(y + 2), width: r1(width), height: r1(height - 4), fill, "fill-opacity": 0.8 });
}

function offer(name, type, data) {
  const link = el("a", { href: URL.createObjectURL(new Blob([data], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** A drawing as PNG, twice its size. */
function asPng(text, width, height) {
  return new Promise((done, fail) => {
    const image = new Image(), canvas = el("canvas", { width: width * 2, height: height * 2 });
    image.onload = () => {
      canvas.getContext("2d").drawImage(image, 0, 0, width * 2, height * 2);
      canvas.toBlob(done, "image/png");
    };
    image.onerror = fail;
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  });
}

/** The circuit and, if it was followed, every path at every checkpoint. */
function asCsv(model) {
  const lines = [["birth", "layer", "head", "query", "key", "born_at_step", "step", "attention", "rise_of_loss_without"]];
  for (const path of model.order) {
    const one = model.paths[path], fixed = [model.birth[path], one.layer + 1, one.head + 1, model.roles[one.query], model.roles[one.key], model.born[path] ?? ""];
    if (!model.emergence) lines.push([...fixed, model.steps[0], one.weight, ""]);
    else model.steps.forEach((step, i) => lines.push([...fixed, step, model.emergence.paths[path].attention[i], model.emergence.paths[path].change[i]]));
  }
  return lines.map((line) => line.join(",")).join("\n") + "\n";
}

/** The circuit for LaTeX: needs \usepackage{tikz} and nothing else. */
function asTikz(model, look) {
  const columns = chainColumns(model.problem), { hops } = model.problem, lines = ["\\begin{tikzpicture}[x=1.25cm, y=1.35cm, >=latex, font=\\small]"];
  const at = (role) => columns.find((column) => column.role === role).at.toFixed(2);
  for (const column of columns) {
    lines.push(`  \\draw[gray!40] (${column.at.toFixed(2)}, 0) -- (${column.at.toFixed(2)}, ${model.used.length});`);
    lines.push(`  \\node[below] at (${column.at.toFixed(2)}, -0.1) {$x_{${symbolOf(column.role, hops)}}${column.role === 2 * hops ? "?" : ""}$};`);
  }
  model.used.forEach((layer, i) => lines.push(`  \\node[left] at (-0.4, ${i + 0.5}) {layer ${layer + 1}};`));
  model.order.forEach((path) => {
    const one = model.paths[path], row = model.used.indexOf(one.layer), weight = strength(model, look, path), cut = look.x.includes(path);
    lines.push(`  \\draw[->, line width=${(0.4 + 1.2 * weight).toFixed(2)}pt, black!${Math.round(25 + 75 * weight)}${cut ? ", dashed" : ""}] (${at(one.key)}, ${row}) to[out=90, in=270] node[pos=0.5, circle, draw, fill=white, inner sep=1pt, font=\\tiny] {${model.birth[path]}} (${at(one.query)}, ${row + 1});`);
  });
  return [...lines, "\\end{tikzpicture}", ""].join("\n");
}

/** This page with the view as it is now. `pristine` is the page as it was opened. */
function copyOfPage(pristine, hash) {
  const view = JSON.stringify({ hash }).replace(/</g, "\\u003c");
  return pristine.replace(/(<script type="application\/json" id="view">)[^<]*(<\/script>)/, (_, open, close) => open + view + close);
}
