// Prompts: from symbols and orders of the chains to what the network reads, as problem/vectors.py lays it out.

/**
 * @typedef {object} Prompt
 * @property {Float32Array} inputs  [pos, d_input] @property {Float32Array} targets  [query, d_target]
 * @property {Int32Array} place  [chain, role]: the position @property {Int32Array} role  by position
 * @property {Int32Array} chain  by position @property {Float32Array} symbols  [chain, symbol, d_symbol]
 */

/** Which symbol of its chain a position of this role holds. */
const symbolOf = (role, hops) => (role === 2 * hops ? 0 : (role + 1) >> 1);

/** @param {object} problem  with `blocks` and `codes` [pos][d_code] @param {Float32Array} symbols @param {ArrayLike<number>} place @returns {Prompt} */
function compose(problem, symbols, place) {
  const { hops, chains, symbol_dim: k, codes } = problem, roles = 2 * hops + 1, length = chains * roles;
  const width = k + codes[0].length, inputs = new Float32Array(length * width);
  const role = new Int32Array(length), chain = new Int32Array(length), asked = problem.target_hops;
  const targets = new Float32Array(chains * asked.length * k);
  for (let c = 0; c < chains; c++) {
    for (let r = 0; r < roles; r++) {
      const at = place[c * roles + r], from = (c * (hops + 1) + symbolOf(r, hops)) * k;
      role[at] = r;
      chain[at] = c;
      for (let i = 0; i < k; i++) inputs[at * width + i] = symbols[from + i];
      codes[at].forEach((value, i) => (inputs[at * width + k + i] = value));
    }
    const query = place[c * roles + 2 * hops] - 2 * hops * chains;
    asked.forEach((hop, n) => {
      for (let i = 0; i < k; i++) targets[(query * asked.length + n) * k + i] = symbols[(c * (hops + 1) + hop) * k + i];
    });
  }
  return { inputs, targets, place: Int32Array.from(place), role, chain, symbols };
}

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
function random(seed) {
  let a = (seed * 2654435761) >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = a;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** A new random prompt. */
function draw(problem, seed) {
  const { hops, chains, symbol_dim: k } = problem, roles = 2 * hops + 1, next = random(seed);
  const symbols = new Float32Array(chains * (hops + 1) * k);
  for (let i = 0; i < symbols.length; i++)
    symbols[i] = Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
  if (problem.symbols === "unit")
    for (let s = 0; s < symbols.length; s += k) {
      const size = Math.hypot(...symbols.subarray(s, s + k)) / Math.sqrt(k);
      for (let i = 0; i < k; i++) symbols[s + i] /= size;
    }
  const shuffled = () => {
    const ranks = Array.from({ length: chains }, (_, i) => i);
    for (let i = chains - 1; i > 0; i--) {
      const j = Math.floor(next() * (i + 1));
      [ranks[i], ranks[j]] = [ranks[j], ranks[i]];
    }
    return ranks;
  };
  const place = new Int32Array(chains * roles);
  for (let pair = 1; pair <= hops; pair++) {
    const ranks = shuffled(), start = problem.blocks.indexOf(pair) * 2 * chains;
    for (let c = 0; c < chains; c++)
      for (const second of [0, 1]) place[c * roles + 2 * (pair - 1) + second] = start + 2 * ranks[c] + second;
  }
  const ranks = shuffled();
  for (let c = 0; c < chains; c++) place[c * roles + 2 * hops] = 2 * hops * chains + ranks[c];
  return compose(problem, symbols, place);
}

/** Mean squared error by hop asked for. @returns {Float64Array} */
function errors(problem, prompt, answers) {
  const hops = problem.target_hops.length, k = problem.symbol_dim, out = new Float64Array(hops);
  for (let i = 0; i < answers.length; i++) out[Math.floor(i / k) % hops] += (answers[i] - prompt.targets[i]) ** 2;
  return out.map((sum) => sum / (problem.chains * k));
}

/** For every query (by chain) and hop asked for: the chain whose symbol of that hop is nearest the answer. */
function nearest(problem, prompt, answers) {
  const { hops, chains, symbol_dim: k, target_hops: asked } = problem, roles = 2 * hops + 1, found = [];
  for (let c = 0; c < chains; c++) {
    const query = prompt.place[c * roles + 2 * hops] - 2 * hops * chains;
    found.push(asked.map((hop, n) => {
      let best = -1, least = Infinity;
      for (let other = 0; other < chains; other++) {
        let distance = 0;
        for (let i = 0; i < k; i++)
          distance += (answers[(query * asked.length + n) * k + i] - prompt.symbols[(other * (hops + 1) + hop) * k + i]) ** 2;
        if (distance < least) [best, least] = [other, distance];
      }
      return best;
    }));
  }
  return found;
}
