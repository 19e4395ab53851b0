// Interventions by row of attention, as circuits/evaluate/apply.py does them: normalise(base x factor).

/**
 * @typedef {{kind: string, keys?: number[], weights?: number[], fixed?: Float32Array}} Form  keys are role numbers;
 *   `fixed` is a [query, key] pattern by position
 * @typedef {Map<string, Form>} Program  by "layer.head.query", all from 0
 */

/** @param {number} layer @param {number} head @param {number} query */
const rowName = (layer, head, query) => `${layer}.${head}.${query}`;

/** The first layer that a program changes; `layers` for none. */
function firstLayer(program, layers) {
  let first = layers;
  for (const name of program.keys()) first = Math.min(first, parseInt(name, 10));
  return first;
}

/** What a form puts on every relation: own chain's roles, then other chains'. */
function factors(form, query, roles) {
  const on = new Float64Array(2 * roles);
  if (form.kind === "identity") on[query] = 1;
  else if (form.kind === "one_hot") on[form.keys[0]] = 1;
  else if (form.kind === "mixture") form.keys.forEach((key, n) => (on[key] = form.weights[n]));
  else if (form.kind === "mean") form.weights.forEach((weight, n) => (on[n] = weight));
  else if (form.kind !== "zero") {
    on.fill(1);
    for (const key of form.keys || []) on[key] = 0;
  }
  return on;
}

/** The `edit` of `forward` that a program is, on one prompt. @param {Program} program @param {Prompt} prompt */
function editOf(program, prompt, causal) {
  const { role, chain } = prompt, roles = prompt.place.length / (Math.max(...chain) + 1);
  return (layer, pattern, length) => {
    const heads = pattern.length / length ** 2;
    for (let head = 0; head < heads; head++)
      for (let q = 0; q < length; q++) {
        const form = program.get(rowName(layer, head, role[q]));
        if (!form || form.kind === "keep") continue;
        changeRow(form, q, pattern.subarray((head * length + q) * length, (head * length + q + 1) * length));
      }
  };

  function changeRow(form, q, row) {
    const end = causal ? q + 1 : row.length, on = factors(form, role[q], roles);
    if (form.kind === "fixed") return row.set(form.fixed.subarray(q * row.length, (q + 1) * row.length));
    if (form.kind === "alike") return lookAlike(q, row, end);
    const factor = new Float64Array(row.length);
    let all = 0, left = 0;
    for (let k = 0; k < end; k++) {
      factor[k] = on[role[k] + (chain[k] === chain[q] ? 0 : roles)];
      all += factor[k];
      left += row[k] * factor[k];
    }
    if (form.kind === "knock_out") {
      const rest = left < 1e-6;
      if (rest && all === 0) factor[q] = all = 1;
      for (let k = 0; k < row.length; k++) row[k] = rest ? factor[k] / all : (row[k] * factor[k]) / left;
    } else for (let k = 0; k < row.length; k++) row[k] = all > 0 ? factor[k] / all : 0;
  }

  /** As much on every role of the own chain as of another one, as in circuits/evaluate/chains.py. */
  function lookAlike(q, row, end) {
    const seen = [...Array(end).keys()].filter((k) => k !== q), mine = (k) => chain[k] === chain[q];
    const means = (some) => {
      const sum = new Float64Array(roles), count = new Float64Array(roles);
      for (const k of some) (sum[role[k]] += row[k]), count[role[k]]++;
      return sum.map((one, r) => (count[r] ? one / count[r] : NaN));
    };
    const others = means(seen.filter((k) => !mine(k))), even = means(seen), known = (k) => !Number.isNaN(others[role[k]]);
    const blind = seen.map((k) => (!mine(k) ? row[k] : known(k) ? others[role[k]] : 0));
    const total = (some) => some.reduce((sum, one) => sum + one, 0);
    const before = row[q] + total(seen.map((k) => row[k])), after = row[q] + total(blind), left = after > 1e-6 * before;
    const put = seen.map((k, n) => (left ? (blind[n] * before) / after : known(k) ? even[role[k]] : 0));
    seen.forEach((k, n) => (row[k] = put[n]));
    row[q] = before - total(put);
  }
}
