// What is looked at: one object of indices, and its text for the address, as in #v1.m1.t47.p3.x2-5

/**
 * @typedef {object} State
 * @property {number} m  model @property {number} t  checkpoint @property {number} p  chosen path, -1 for none
 * @property {number} q  path beside it, -1 @property {number} h  chosen head: layer * heads + head, -1
 * @property {number[]} x  paths cut, ascending @property {"chain"|"prompt"} a  axis @property {number} s  prompt
 * @property {"model"|"alone"} b  what is cut from @property {"circuit"|"roles"|"others"|"prompt"} v  heads shown
 * @property {boolean} k  whether who knows what is shown
 * @property {{m: number, t: number, x: number[]}|null} c  what is held beside it
 */

const FRESH = { m: 0, t: -1, p: -1, q: -1, h: -1, x: [], a: "chain", s: 0, b: "model", v: "roles", k: true, c: null };
const WORDS = { a: ["chain", "prompt"], b: ["model", "alone"], v: ["circuit", "roles", "others", "prompt"] };

/** @param {State} state */
function toHash(state) {
  const parts = ["v1", `m${state.m}`, `t${state.t}`];
  for (const name of ["p", "q", "h"]) if (state[name] >= 0) parts.push(name + state[name]);
  if (state.x.length) parts.push("x" + state.x.join("-"));
  for (const name of ["a", "b", "v"]) if (state[name] !== FRESH[name]) parts.push(name + WORDS[name].indexOf(state[name]));
  if (state.s) parts.push("s" + state.s);
  if (!state.k) parts.push("k0");
  if (state.c) parts.push("c" + [state.c.m, state.c.t, ...state.c.x].join("-"));
  return parts.join(".");
}

/** The state that a hash says, as far as it makes sense. `limits` gives a model's numbers of checkpoints, paths, heads. */
function fromHash(text, limits) {
  const parts = text.replace(/^#/, "").split("."), said = {};
  if (parts[0] !== "v1") return null;
  for (const part of parts.slice(1)) if (/^[a-z]\d+(-\d+)*$/.test(part)) said[part[0]] = part.slice(1).split("-").map(Number);
  const state = { ...FRESH, x: [] }, one = (name, below) => (said[name] && said[name][0] < below ? said[name][0] : FRESH[name]);
  state.m = one("m", limits.length);
  const { checkpoints, paths, heads } = limits[state.m];
  state.t = Math.min(said.t ? said.t[0] : checkpoints - 1, Math.max(0, checkpoints - 1));
  state.p = one("p", paths);
  state.q = one("q", paths);
  state.h = one("h", heads);
  state.s = one("s", 1e6);
  state.x = distinctBelow(said.x || [], paths);
  for (const name of ["a", "b", "v"]) if (said[name]) state[name] = WORDS[name][said[name][0]] || FRESH[name];
  state.k = !(said.k && said.k[0] === 0);
  if (said.c && said.c.length > 1 && said.c[0] < limits.length)
    state.c = { m: said.c[0], t: Math.min(said.c[1], Math.max(0, limits[said.c[0]].checkpoints - 1)), x: distinctBelow(said.c.slice(2), limits[said.c[0]].paths) };
  return state;
}

/** Ascending, each once, below a number. */
const distinctBelow = (numbers, below) => [...new Set(numbers)].filter((n) => n < below).sort((a, b) => a - b);

/** A store: the state, how it is changed, and its listeners. */
function store(initial) {
  let state = initial, waiting = false;
  const readers = [];
  return {
    get: () => state,
    set(changes) {
      state = { ...state, ...changes };
      if (waiting) return;
      waiting = true;
      queueMicrotask(() => {
        waiting = false;
        for (const reader of readers) reader(state);
      });
    },
    tell: (reader) => readers.push(reader),
  };
}
