// Drawing again: the content of a box becomes what is wanted, node by node, so that what is held by the mouse, has the
// focus, or was opened stays as it is.

/** Children in place of those that a box has; a child of the same kind, and of the same key, is kept and made alike. */
function redraw(box, ...children) {
  const seen = box.querySelector(":focus-visible");
  fill(box, el("div", {}, children));
  if (!seen || box.contains(document.activeElement)) return;
  const near = box.querySelector("button, [tabindex]");  // what had the focus is gone
  if (near) near.focus({ preventScroll: true });
}

function fill(box, wanted) {
  const left = [...box.childNodes];
  const children = [...wanted.childNodes].map((fresh) => {
    const place = left.findIndex((old) => old.nodeName === fresh.nodeName && keyOf(old) === keyOf(fresh));
    return place < 0 ? fresh : alike(left.splice(place, 1)[0], fresh);
  });
  for (const gone of left) gone.remove();
  arrange(box, children);
}

/** What a node is known by among its neighbours: arrows and strips change their places. */
const keyOf = (node) => (isElement(node) ? node.getAttribute("data-key") || node.getAttribute("data-path") : null);
const isElement = (node) => node.nodeType === Node.ELEMENT_NODE;

/** The old node, now as the fresh one is. Whether a `details` is open is for who reads it. */
function alike(old, fresh) {
  if (!isElement(old)) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return old;
  }
  act(old, ACTS.get(fresh));
  if (!fresh.firstChild && old.nodeName !== "CANVAS" && old.isEqualNode(fresh) && old.value === fresh.value) return old;
  const gone = [...old.attributes].filter(({ name }) => name !== "open" && !fresh.hasAttribute(name));
  for (const { name } of gone) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (old.nodeName === "INPUT" && old.value !== fresh.value) old.value = fresh.value;
  if (old.nodeName === "CANVAS") repaint(old, fresh);
  else fill(old, fresh);
  return old;
}

/** Gives an element these handlers in place of its own. */
function act(element, acts) {
  if (!acts && !ACTS.has(element)) return;
  for (const name of Object.keys(ACTS.get(element) || {})) element[name] = null;
  ACTS.set(element, acts || {});
  Object.assign(element, acts);
}

function repaint(canvas, fresh) {
  canvas.width = fresh.width;  // which also wipes it
  canvas.height = fresh.height;
  if (fresh.width && fresh.height) canvas.getContext("2d").drawImage(fresh, 0, 0);
}

/** Brings children in order around the one that is held: a node that is moved loses the focus and the click. */
function arrange(box, children) {
  const HELD = ":focus-within, :active", mine = (child) => child.parentNode === box;
  const holds = (child) => mine(child) && isElement(child) && child.matches(HELD);
  const held = box.matches(HELD) ? children.findIndex(holds) : -1;
  const before = (next, child) => (mine(child) && child.nextSibling === next ? child : box.insertBefore(child, next));
  children.slice(held + 1).reduceRight(before, null);
  if (held >= 0) children.slice(0, held).reduceRight(before, children[held]);
}
