// The tools at the top: which model, theme, saving, help; and the keys.

function toolbar(page) {
  const { models, state } = page, save = menu(page), root = document.documentElement;
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const theme = el("button", { type: "button", "aria-label": "Light or dark", title: "Light or dark", onclick: () => {
    root.dataset.theme = dark() ? "light" : "dark";
    page.set({});
  } }, "◐");
  const which = el("select", { "aria-label": "Model", onchange: (event) => {
    const m = Number(event.target.value);
    page.set({ m, t: models[m].steps.length - 1, p: -1, q: -1, h: -1, x: [] });
  } }, models.map((model, i) => el("option", { value: i }, model.name)));
  which.value = String(state.get().m);
  state.tell((now) => (which.value = String(now.m)));
  $("tools").append(...(models.length > 1 ? [which] : []), save, theme, el("button", { type: "button", "aria-label": "Help", onclick: help }, "?"));
}

/** Save and share. */
function menu(page) {
  const list = el("div", { hidden: true }), button = el("button", { type: "button", "aria-haspopup": "true", "aria-expanded": "false" }, "Save");
  const open = (on) => {
    list.hidden = !on;
    button.setAttribute("aria-expanded", String(on));
  };
  button.addEventListener("click", () => open(list.hidden));
  document.addEventListener("click", (event) => !event.target.closest(".menu") && open(false));
  document.addEventListener("keydown", (event) => event.key === "Escape" && open(false));
  const name = () => page.model().name.replace(/[^\w-]+/g, "-").toLowerCase(), figure = (which) => [...document.querySelectorAll(`svg[data-figure="${which}"]`)].at(-1);  // of A and B, B
  const picture = async (which, png) => {
    const drawn = figure(which), text = drawn && plainSvg(drawn);
    if (!drawn) return;
    if (png) offer(`${name()}-${which}.png`, "image/png", await asPng(text, drawn.width.baseVal.value, drawn.height.baseVal.value));
    else offer(`${name()}-${which}.svg`, "image/svg+xml", text);
  };
  const entries = [
    ["A copy with this view (HTML)", () => offer(`${name()}-view.html`, "text/html", copyOfPage(page.pristine, page.hash()))],
    ["Circuit (SVG)", () => picture("circuit", false)], ["Circuit (PNG)", () => picture("circuit", true)],
    ["Circuit (TikZ)", () => offer(`${name()}-circuit.tex`, "text/plain", asTikz(page.model(), page.look()))],
    ["Training (SVG)", () => picture("training", false)], ["Training (PNG)", () => picture("training", true)],
    ["Paths over training (CSV)", () => offer(`${name()}-paths.csv`, "text/csv", asCsv(page.model()))],
    ["Everything drawn (JSON)", () => offer(`${name()}.json`, "application/json", $("manifest").textContent)],
  ];
  for (const [words, act] of entries) list.append(el("button", { type: "button", onclick: () => (open(false), act()) }, words));
  return el("div", { class: "menu" }, button, list);
}

function help() {
  const rows = [["← →", "a checkpoint back, forth"], ["Home End", "first, last checkpoint"], ["Space", "play, pause"], ["1 … 9", "cut or restore path n, by birth"], ["0", "restore all"], ["Tab Enter", "to an arrow; choose it"], ["Shift + click", "compare with the chosen path"], ["Esc", "choose nothing"], ["?", "this"]];
  $("help").replaceChildren(el("h2", { id: "help-title" }, "Keys"), el("dl", {}, rows.flatMap(([key, words]) => [el("dt", {}, key), el("dd", {}, words)])),
    el("p", { class: "hint" }, "A cut makes the path's row of attention uniform, as the paper does. Recorded numbers come from hopscope's own measurements; live numbers are computed here, by the network whose weights (in half precision) are in this file."),
    el("form", { method: "dialog" }, el("button", {}, "Close")));
  $("help").showModal();
}

function keys({ state, go, cut, play, model, playing }) {
  document.addEventListener("keydown", (event) => {
    const now = state.get(), last = model().steps.length - 1, typing = event.target.closest("select, input:not([type=range]), textarea, dialog");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const on = event.target.closest("button, summary, a, [role=button]"), acts = {
      ArrowLeft: () => go({ t: Math.max(0, now.t - 1) }), ArrowRight: () => go({ t: Math.min(last, now.t + 1) }), Home: () => go({ t: 0 }), End: () => go({ t: last }),
      Escape: () => go({ p: -1, q: -1, h: -1 }), 0: () => go({ x: [] }), "?": help,
    };
    if (event.key === " " && !on) acts[" "] = () => play(!playing());
    if (/^[1-9]$/.test(event.key) && model().order[event.key - 1] !== undefined && model().paths.length) acts[event.key] = () => cut(model().order[event.key - 1]);
    if (!acts[event.key] || event.target.closest(".scroll, pre")) return;
    event.preventDefault();
    acts[event.key]();
  });
}
