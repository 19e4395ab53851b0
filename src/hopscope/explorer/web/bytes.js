// Packed arrays back into typed arrays: base64, zlib, byte planes, deltas, half precision. See arrays.py.

/** @param {string} text @returns {Uint8Array} */
function fromBase64(text) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

/** @param {Uint8Array} bytes @returns {Promise<Uint8Array>} */
async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Numbers of half precision, exactly. @param {Uint16Array} half @returns {Float32Array} */
function fromHalf(half) {
  const out = new Float32Array(half.length);
  for (let i = 0; i < half.length; i++) {
    const h = half[i], sign = h & 0x8000 ? -1 : 1, exponent = (h >> 10) & 31, part = h & 1023;
    if (exponent === 0) out[i] = sign * part * 2 ** -24;
    else if (exponent === 31) out[i] = part ? NaN : sign * Infinity;
    else out[i] = sign * (1 + part / 1024) * 2 ** (exponent - 15);
  }
  return out;
}

/**
 * A typed array of what `pack` packed; half precision comes out as Float32Array.
 * @param {{dtype: string, shape: number[], delta: boolean}} head @param {string} text
 */
async function unpack(head, text) {
  const planes = await inflate(fromBase64(text));
  const size = { uint8: 1, uint16: 2, float16: 2, float32: 4 }[head.dtype];
  const count = head.shape.reduce((a, b) => a * b, 1), bytes = new Uint8Array(count * size);
  for (let p = 0; p < size; p++) for (let i = 0; i < count; i++) bytes[i * size + p] = planes[p * count + i];
  if (head.delta) {
    const step = head.shape[0] ? count / head.shape[0] : 0;
    for (let i = step; i < count; i++) bytes[i] = (bytes[i] + bytes[i - step]) & 255;
  }
  if (head.dtype === "uint8") return bytes;
  if (head.dtype === "float32") return new Float32Array(bytes.buffer);
  const words = new Uint16Array(bytes.buffer);
  return head.dtype === "uint16" ? words : fromHalf(words);
}
