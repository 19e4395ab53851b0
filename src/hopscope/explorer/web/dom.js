// Elements made in one call, numbers and roles for people. Text only ever goes in as text nodes.

/** @param {string} name @param {object} [attributes] @param {...(Node|string|null)} children */
function el(name, attributes = {}, ...children) {
  return dressed(document.createElement(name), attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return dressed(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

/** What elements that were made with handlers do, by the handler's name: `redraw` hands it on. */
const ACTS = new WeakMap();

function dressed(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) {
      ACTS.set(element, { ...ACTS.get(element), [key]: value });
      element[key] = value;
    } else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const $ = (id) => document.getElementById(id);

/** 0.0123, 1.25, 12,300 */
function decimal(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en-US");
  return value.toFixed(digits).replace("-", "−");
}

const count = (value) => Math.round(value).toLocaleString("en-US");
const r1 = (value) => Math.round(value * 10) / 10;
const signed = (value) => (value >= 0 ? "+" : "") + decimal(value);

/** A role as HTML: x0?, ›x1, x0› with a lowered number. */
function roleNodes(role, hops) {
  const sign = role === 2 * hops ? ["", "?"] : role % 2 ? ["›", ""] : ["", "›"];
  return [sign[0], el("i", {}, "x"), el("sub", {}, String(symbolOf(role, hops))), sign[1]];
}

/** x with a lowered number, as parts of an SVG text. */
function symbolSpans(symbol, after = "") {
  const low = svg("tspan", { "font-size": "70%", dy: "0.28em" }, String(symbol));
  return [svg("tspan", { class: "math", "font-style": "italic" }, "x"), low, ...(after ? [svg("tspan", { dy: "-0.2em" }, after)] : [])];
}

const letter = (chain) => String.fromCharCode(97 + (chain % 26));
const chainColor = (chain) => `var(--chain-${chain % 8})`;

/** Buttons of which one is pressed. @param {[string, string, string?][]} choices  value, words, hint */
function choice(label, choices, value, pick) {
  const buttons = choices.map(([one, words, hint]) =>
    el("button", { type: "button", "aria-pressed": String(one === value), title: hint, onclick: () => pick(one) }, words));
  return el("span", { class: "group", role: "group", "aria-label": label }, buttons);
}

/** What Enter and Space do on a drawing that is a button. */
function pressed(event, act) {
  if (event.key !== "Enter" && event.key !== " ") return;
  event.preventDefault();
  event.stopPropagation();
  act();
}

/** Words that follow the pointer over elements with data-tip, and those that have the focus. */
function tips(box) {
  const show = (event) => {
    const at = event.target.closest && event.target.closest("[data-tip]");
    box.hidden = !at || !at.dataset.tip;
    if (box.hidden) return;
    box.textContent = at.dataset.tip;
    const where = event.type === "focusin" ? at.getBoundingClientRect() : { right: event.clientX, bottom: event.clientY };
    const left = Math.min(where.right + 12, innerWidth - box.offsetWidth - 8), below = where.bottom + 14;
    box.style.left = Math.max(8, left) + "px";
    box.style.top = (below + box.offsetHeight > innerHeight ? where.bottom - box.offsetHeight - 12 : below) + "px";
  };
  document.addEventListener("pointermove", (event) => event.pointerType === "mouse" && show(event));
  document.addEventListener("focusin", (event) => event.target.matches(":focus-visible") ? show(event) : (box.hidden = true));
  document.addEventListener("pointerdown", () => (box.hidden = true));
}

/** A colour between two of the theme, by lightness alone: 0 is the ground, 1 the ink. */
function ramp() {
  const style = getComputedStyle(document.documentElement), of = (name) => parseColor(style.getPropertyValue(name).trim());
  const ground = of("--raised"), ink = of("--ink");
  return (value) => `rgb(${ground.map((part, i) => Math.round(part + (ink[i] - part) * Math.min(1, Math.max(0, value)))).join(",")})`;
}

const parseColor = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

/** Tints of attention: its square root, so that little is seen too. */
const tint = (weight) => Math.sqrt(Math.max(0, weight));
