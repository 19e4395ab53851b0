// The transformer of model/transformer.py for one sequence, in plain arithmetic on typed arrays. Double precision: a
// processor has it for nothing, and rounding then adds nothing to that of the weights.

/**
 * @typedef {object} Shape
 * @property {number} layers @property {number} heads @property {number} d_model @property {number} d_head
 * @property {number} d_input @property {number} d_output @property {number} reads
 * @property {number} divisor  of attention scores
 * @property {boolean} mlp @property {boolean} causal @property {boolean} layer_norm
 */

/** Weights by name, as views on one array. @param {Shape} shape @param {[string, number][]} names @param {Float32Array} flat */
function network(shape, names, flat) {
  const weights = {};
  let at = 0;
  for (const [name, size] of names) {
    weights[name] = flat.subarray(at, at + size);
    at += size;
  }
  const inner = shape.heads * shape.d_head;
  const linear = (name) => turned(weights[name + ".weight"], weights[name + ".bias"]);
  const norm = (name) => (shape.layer_norm ? { w: Float64Array.from(weights[name + ".weight"]), b: Float64Array.from(weights[name + ".bias"]) } : null);
  const blocks = [];
  for (let layer = 0; layer < shape.layers; layer++) {
    const at = `blocks.${layer}.`;
    blocks.push({
      norm: norm(at + "attention_norm"), query: linear(at + "attention.query"), key: linear(at + "attention.key"),
      value: linear(at + "attention.value"), out: linear(at + "attention.out"),
      mlpNorm: shape.mlp ? norm(at + "mlp_norm") : null,
      up: shape.mlp ? linear(at + "mlp.up") : null, down: shape.mlp ? linear(at + "mlp.down") : null,
    });
  }
  return { shape, inner, embed: linear("embed"), blocks, norm: norm("norm"), read: linear("read") };
}

/** A matrix [dIn, dOut] with its bias, the matrix turned over: then every number of an output is one run through memory. */
function turned(w, b) {
  const dOut = b.length, dIn = w.length / dOut, out = new Float64Array(w.length);
  for (let i = 0; i < dIn; i++) for (let j = 0; j < dOut; j++) out[j * dIn + i] = w[i * dOut + j];
  return { w: out, b: Float64Array.from(b), dIn, dOut };
}

/** out[row] = b + x[row] @ w for rows from `first` on; four rows and two outputs at a time, so that little is read twice. */
function affine(x, rows, { w, b, dIn, dOut }, first = 0) {
  const out = new Float64Array((rows - first) * dOut);
  let r = first;
  for (; r + 3 < rows; r += 4) {
    const x0 = r * dIn, x1 = x0 + dIn, x2 = x1 + dIn, x3 = x2 + dIn, o = (r - first) * dOut;
    let j = 0;
    for (; j + 1 < dOut; j += 2) {
      const wa = j * dIn, wb = wa + dIn;
      let a0 = b[j], a1 = a0, a2 = a0, a3 = a0, b0 = b[j + 1], b1 = b0, b2 = b0, b3 = b0;
      for (let i = 0; i < dIn; i++) {
        const u = w[wa + i], v = w[wb + i], y0 = x[x0 + i], y1 = x[x1 + i], y2 = x[x2 + i], y3 = x[x3 + i];
        a0 += u * y0; a1 += u * y1; a2 += u * y2; a3 += u * y3;
        b0 += v * y0; b1 += v * y1; b2 += v * y2; b3 += v * y3;
      }
      out[o + j] = a0; out[o + dOut + j] = a1; out[o + 2 * dOut + j] = a2; out[o + 3 * dOut + j] = a3;
      out[o + j + 1] = b0; out[o + dOut + j + 1] = b1; out[o + 2 * dOut + j + 1] = b2; out[o + 3 * dOut + j + 1] = b3;
    }
    for (; j < dOut; j++) for (let k = 0; k < 4; k++) out[o + k * dOut + j] = dot(x, x0 + k * dIn, w, j * dIn, dIn) + b[j];
  }
  for (; r < rows; r++) for (let j = 0; j < dOut; j++) out[(r - first) * dOut + j] = dot(x, r * dIn, w, j * dIn, dIn) + b[j];
  return out;
}

function dot(x, at, w, from, size) {
  let sum = 0;
  for (let i = 0; i < size; i++) sum += x[at + i] * w[from + i];
  return sum;
}

/** Every row to mean 0 and deviation 1, then gain and offset; the rows themselves where there is no norm. */
function normalised(x, rows, d, norm) {
  if (!norm) return x;
  const out = new Float64Array(rows * d);
  for (let r = 0; r < rows; r++) {
    const at = r * d;
    let mean = 0, variance = 0;
    for (let i = 0; i < d; i++) mean += x[at + i];
    mean /= d;
    for (let i = 0; i < d; i++) variance += (x[at + i] - mean) ** 2;
    const scale = 1 / Math.sqrt(variance / d + 1e-5);
    for (let i = 0; i < d; i++) out[at + i] = (x[at + i] - mean) * scale * norm.w[i] + norm.b[i];
  }
  return out;
}

/** GELU in its tanh form, in place. */
function gelu(x) {
  for (let i = 0; i < x.length; i++) {
    const v = x[i];
    x[i] = v / (1 + Math.exp(-1.5957691216057308 * (v + 0.044715 * v * v * v)));
  }
  return x;
}

/** Attention of one layer: [head, query, key], rows before `first` left at 0. */
function attention(net, query, key, length, first) {
  const { heads, d_head: d, causal } = net.shape, scale = 1 / net.shape.divisor, inner = net.inner;
  const pattern = new Float64Array(heads * length * length);
  for (let h = 0; h < heads; h++)
    for (let q = first; q < length; q++) {
      const at = (h * length + q) * length, end = causal ? q + 1 : length, from = (q - first) * inner + h * d;
      let top = -Infinity, total = 0;
      for (let k = 0; k < end; k++) {
        let score = 0;
        const to = k * inner + h * d;
        for (let i = 0; i < d; i++) score += query[from + i] * key[to + i];
        pattern[at + k] = score *= scale;
        if (score > top) top = score;
      }
      for (let k = 0; k < end; k++) total += pattern[at + k] = Math.exp(pattern[at + k] - top);
      for (let k = 0; k < end; k++) pattern[at + k] /= total;
    }
  return pattern;
}

/** What the heads write: pattern @ value, then out; for rows from `first` on. */
function headsWrite(net, block, pattern, value, length, first) {
  const { heads, d_head: d } = net.shape, inner = net.inner, rows = length - first;
  const mixed = new Float64Array(rows * inner);
  for (let h = 0; h < heads; h++)
    for (let q = first; q < length; q++) {
      const at = (h * length + q) * length, to = (q - first) * inner + h * d;
      for (let k = 0; k < length; k++) {
        const weight = pattern[at + k];
        if (weight === 0) continue;
        const from = k * inner + h * d;
        for (let i = 0; i < d; i++) mixed[to + i] += weight * value[from + i];
      }
    }
  return affine(mixed, rows, block.out);
}

/**
 * One sequence through the network.
 * @param {object} net  of `network`
 * @param {Float32Array} inputs  [pos, d_input]
 * @param {(layer: number, pattern: Float64Array, length: number) => void} [edit]  changes [head, query, key] in place
 * @param {{start?: number, streams?: Float64Array[], all?: boolean}} [how]  streams to go on from, entering layer `start`;
 *   `all`: every position of the last layer is a query, so that whole patterns come out
 * @returns {{answers: Float64Array, patterns: Float64Array[], streams: Float64Array[]}}  answers [read, d_output]
 */
function forward(net, inputs, edit, how = {}) {
  const { shape } = net, d = shape.d_model, length = inputs.length / shape.d_input;
  const start = how.start || 0, streams = (how.streams || []).slice(0, start + 1), patterns = [];
  if (!streams.length) streams.push(affine(Float64Array.from(inputs), length, net.embed));
  let x = streams[start];
  for (let layer = start; layer < shape.layers; layer++) {
    const block = net.blocks[layer], last = layer === shape.layers - 1;
    const first = last && !how.all ? length - shape.reads : 0, rows = length - first;
    const normed = normalised(x, length, d, block.norm);
    const query = affine(normed, length, block.query, first), key = affine(normed, length, block.key);
    const pattern = attention(net, query, key, length, first);
    if (edit) edit(layer, pattern, length);
    patterns[layer] = pattern;
    const written = headsWrite(net, block, pattern, affine(normed, length, block.value), length, first);
    for (let i = 0; i < written.length; i++) written[i] += x[first * d + i];
    x = written;
    if (block.up) {
      const hidden = gelu(affine(normalised(x, rows, d, block.mlpNorm), rows, block.up));
      const more = affine(hidden, rows, block.down);
      for (let i = 0; i < x.length; i++) x[i] += more[i];
    }
    streams[layer + 1] = x;
  }
  const tail = x.subarray(x.length - shape.reads * d);
  const answers = affine(normalised(tail, shape.reads, d, net.norm), shape.reads, net.read);
  return { answers, patterns, streams };
}
