// Who can know what: theory/path_flow.py and theory/information_flow.py for one chain. A holding is a set of pieces, a BigInt.

/**
 * Holdings after each layer along given paths, and no others (Assumptions 1 and 2).
 * @param {bigint[]} start  what every role holds before the first layer
 * @param {{layer: number, query: number, key: number}[]} paths
 * @returns {bigint[][]}  by layer from 0 (before the first) to `layers`
 */
function alongPaths(start, layers, paths) {
  const history = [start];
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
