// From the bytes of the page to numbers: the inverse of packing.py.

const KINDS = {
  i1: Int8Array, u1: Uint8Array, i2: Int16Array, u2: Uint16Array, i4: Int32Array, u4: Uint32Array,
  f4: Float32Array, f8: Float64Array,
};

async function unpack() {
  const packed = fromBase64(byId("data").textContent.trim());
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return restore(JSON.parse(byId("summary").textContent), bytes);
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let k = 0; k < letters.length; k++) bytes[k] = letters.charCodeAt(k);
  return bytes;
}

function restore(tree, bytes) {
  if (Array.isArray(tree)) return tree.map((part) => restore(part, bytes));
  if (tree === null || typeof tree !== "object") return tree;
  if (tree.$) return arrayOf(tree.$, bytes);
  if (tree.levels && tree.codes) return texts(tree.levels, restore(tree.codes, bytes));
  for (const key of Object.keys(tree)) {
    if (tree[key]?.$) later(tree, key, bytes); else tree[key] = restore(tree[key], bytes);
  }
  return tree;
}

// Computed on first access: a reader opens few of many features.
function later(tree, key, bytes) {
  const reference = tree[key].$;
  const get = () => {
    const value = arrayOf(reference, bytes);
    Object.defineProperty(tree, key, { value });
    return value;
  };
  Object.defineProperty(tree, key, { get, enumerable: true, configurable: true });
}

function texts(levels, codes) {
  return Array.from(codes, (code) => levels[code] ?? null); // null: a missing value
}

function arrayOf([kind, shape, start, how = {}], bytes) {
  const numbers = together(KINDS[kind] ?? Uint8Array, shape, start, bytes);
  if (how.json) return JSON.parse(new TextDecoder().decode(numbers));
  if (how.divide > 1) return new Float64Array(numbers).map((step) => step / how.divide);
  if (how.scale === undefined) return numbers;
  if (how.differences) addUp(numbers, shape.at(-1));
  return new Float64Array(numbers).map((step) => how.middle + step * how.scale);
}

// All first bytes, then all second ones, which compresses better.
function together(Kind, shape, start, bytes) {
  const length = shape.reduce((a, b) => a * b, 1);
  const size = Kind.BYTES_PER_ELEMENT;
  const whole = new Uint8Array(length * size);
  for (let b = 0; b < size; b++) {
    const plane = start + b * length;
    for (let k = 0; k < length; k++) whole[k * size + b] = bytes[plane + k];
  }
  return new Kind(whole.buffer);
}

// In place, modulo 2^16: an Int16Array keeps the low bits, as NumPy did.
function addUp(steps, width) {
  for (let k = 0; k < steps.length; k++) if (k % width) steps[k] += steps[k - 1];
}
