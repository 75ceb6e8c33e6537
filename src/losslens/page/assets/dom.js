// Elements, and numbers as text. Strings are always inserted as text, never as HTML: the user chose the names of features.

const byId = (id) => document.getElementById(id);

function el(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null));
  return element;
}

const finite = (value) => typeof value === "number" && Number.isFinite(value);

const FORMATS = new Map(); // creating one is slow, and a table needs a thousand numbers

function format(options) {
  const key = JSON.stringify(options);
  if (!FORMATS.has(key)) FORMATS.set(key, new Intl.NumberFormat("en", options));
  return FORMATS.get(key);
}

const withMinus = (text) => text.replaceAll("-", "−");
const outOfSight = (size) => size >= 1e9 || (size < 1e-5 && size > 0);

// A result: at least so many significant digits, and an exponent only for very large or small numbers.
function number(value, digits = 4) {
  if (!finite(value)) return "–";
  const size = Math.abs(value);
  if (outOfSight(size)) return withMinus(value.toExponential(digits - 1));
  const decimals = size === 0 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return withMinus(format({ minimumFractionDigits: decimals, maximumFractionDigits: decimals }).format(value));
}

// A value of the data, in the usual notation: a year is 2011, not 2,011.
function plain(value) {
  if (Number.isSafeInteger(value)) return withMinus(format({ useGrouping: Math.abs(value) >= 10000 }).format(value));
  if (outOfSight(Math.abs(value))) return withMinus(String(Number(value.toPrecision(6))));
  return withMinus(format({ maximumSignificantDigits: 6, useGrouping: Math.abs(value) >= 10000 }).format(value));
}

const count = (value) => format({}).format(value);

function date(milliseconds) {
  if (!finite(milliseconds)) return "missing";
  const text = new Date(milliseconds).toISOString();
  return text.endsWith("T00:00:00.000Z") ? text.slice(0, 10) : text.slice(0, 16).replace("T", " ");
}

// A number that tests and copying read in full: the text is rounded, data-value is not.
function output(name, value, label, digits = 4) {
  const full = finite(value) ? String(value) : "";
  return el("output", { "aria-live": "off", "data-name": name, "data-value": full, "aria-label": label }, number(value, digits));
}

// A name that may break behind an underscore, a dot or a slash, rather than within a word.
const breakable = (name) => name.split(/(?<=[\w][_./])(?=\w)/).flatMap((part, k) => (k ? [el("wbr"), part] : [part]));

// Features that go together, of the first model.
const blocksOf = (data) => data.blocks?.blocks ?? [];

function listed(texts) {
  if (texts.length < 2) return texts.join("");
  return `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}`;
}

// At most once a frame: pointers move faster than screens.
function oncePerFrame(work) {
  let waiting = null;
  return (...last) => {
    if (waiting === null) requestAnimationFrame(() => { const now = waiting; waiting = null; work(...now); });
    waiting = last;
  };
}
