// Who can know what: theory/path_flow.py and theory/information_flow.py for one chain. A holding is a set of pieces, a BigInt.

/** What every role holds before the first layer. */
function startHoldings(problem) {
  const { hops } = problem, held = [];
  for (let role = 0; role <= 2 * hops; role++) {
    const i = role === 2 * hops ? 0 : role + 1;
    held.push(problem.position === "none" ? 1n << BigInt(i | 1) : 3n << BigInt(i));
  }
  return held;
}

/**
 * Holdings after each layer along given paths, and no others (Assumptions 1 and 2).
 * @param {{layer: number, query: number, key: number}[]} paths
 * @returns {bigint[][]}  by layer from 0 (before the first) to `layers`
 */
function alongPaths(problem, layers, paths) {
  const history = [startHoldings(problem)];
  for (let layer = 0; layer < layers; layer++) {
    const before = history[layer], after = [...before];
    for (const path of paths)
      if (path.layer === layer && before[path.query] & before[path.key]) after[path.query] |= before[path.key];
    history.push(after);
  }
  return history;
}

/** Whether the symbol x{k} is in a holding. */
const knows = (holding, k) => Boolean((holding >> BigInt(2 * k + 1)) & 1n);
