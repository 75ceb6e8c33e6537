// The subgroup as Python: the call that chooses the same rows of the table that the report was made of.

function asPython(page) {
  const { data, conditions } = page;
  const used = new Set();
  const parts = conditions.map((condition) => pythonOf(page, condition, used));
  const many = parts.length && data.n < data.n_given ? [`# The page holds ${count(data.n)} of ${count(data.n_given)} rows; this chooses among all of X.`] : [];
  const loss = /^\w+$/.test(data.loss.name) ? `, loss=${quoted(data.loss.name)}` : "";
  const weight = isEven(page.weight) ? "" : ", sample_weight=sample_weight";
  const rows = parts.length ? [`rows = ${parts.length > 1 ? `(\n    ${parts.join("\n    & ")}\n)` : parts[0]}`] : [];
  const chosen = parts.length ? `.${page.donors}(np.asarray(rows))` : "";
  const imports = ["import losslens as ll", ...(parts.length ? ["import numpy as np"] : []), ...(used.has("pd") ? ["import pandas as pd"] : [])];
  return [
    ...imports, "", ...many, ...rows,
    `importances = ll.feature_importance(model, X, y${loss}${weight})`,
    `importances${chosen}[${quoted(data.features[page.open].name)}]`,
  ].join("\n");
}

function isEven(weight) {
  const [low, high] = extent(weight);
  return high - low <= 1e-12 * high;
}

// JSON's strings are Python's, too.
const quoted = (text) => JSON.stringify(text);

function pythonOf(page, condition, used) {
  const column = condition.rows ? null : page.columns.find((one) => one.key === condition.key);
  const how = column && written(page, column);
  if (!how) return listedRows(page, condition, used);
  return condition.chosen ? chosenPython(how, condition.chosen, used) : rangePython(page, column, how.of, condition, used);
}

// A column of the table, or the target; others are not in it.
function written({ data: { python } }, column) {
  if (!python) return null;
  return column.key === "y" ? { of: "np.asarray(y)", ...python.target } : column.own ? python.columns[Number(column.key.slice(1))] : null;
}

// What Python can't say about the table (a prediction, a loss, a cluster), and rows chosen by hand: one by one.
function listedRows(page, condition, used) {
  used.add("np");
  const test = holds(condition, page.columns);
  const { n, n_given: given, table, python } = page.data;
  const rows = Array.from({ length: n }, (_, i) => i).filter(test);
  if (n === given) return `np.isin(np.arange(len(X)), [${rows.join(", ")}])`;
  const names = rows.map((i) => table.index[i]).map((name) => (typeof name === "number" ? name : quoted(name)));
  return `np.isin(${python?.rows ?? "np.arange(len(X))"}, [${names.join(", ")}])`;
}

function chosenPython({ of, literals, as_text: asText }, chosen, used) {
  const there = [...chosen].filter((value) => !isLost(value));
  const lost = there.length < chosen.size ? isNull(of, used) : null;
  const known = new Map(literals ?? []);
  const values = there.map((value) => known.get(value) ?? (typeof value === "number" ? numberPython(value) : quoted(value)));
  const among = values.length ? amongPython(asText ? textsOf(of) : of, values, used) : null;
  return among && lost ? `(${among} | ${lost})` : among ?? lost;
}

const isArray = (of) => of.startsWith("np.") || of.startsWith("X[:, ");
const textsOf = (of) => (isArray(of) ? `np.array([repr(value) for value in ${of}])` : `${of}.map(repr)`);
const isNull = (of, used) => (isArray(of) ? `${needs("pd", used)}.isna(${of})` : `${of}.isna()`);
const amongPython = (of, values, used) => (isArray(of) ? `${needs("np", used)}.isin(${of}, [${values.join(", ")}])` : `${of}.isin([${values.join(", ")}])`);

function needs(module, used) {
  used.add(module);
  return module;
}

const numberPython = (value) => (Object.is(value, -0) ? "0" : String(value));

// A bound that no row is beyond is left out: it may be the page's smallest value, rounded.
function rangePython(page, column, of, condition, used) {
  const { values } = column;
  const [low, high] = endsOf(condition, values);
  const { below, first, last, above } = nextTo(values, low, high);
  const every = page.data.n === page.data.n_given;
  const asks = { low: finite(condition.low) && (below !== null || !every), high: finite(condition.high) && (above !== null || !every) };
  const lost = condition.missing ? isNull(of, used) : null;
  const parts = [];
  if (column.kind === "date") {
    if (asks.low) parts.push(`(${of} >= ${needs("pd", used)}.${instant(condition.low)})`);
    if (asks.high) parts.push(`(${of} < ${needs("pd", used)}.${instant(Math.floor(condition.high) + 1)})`); // the page knows milliseconds
  } else {
    if (asks.low) parts.push(`(${of} >= ${boundPython(values, condition.low, below, first)})`);
    if (asks.high) parts.push(`(${of} <= ${boundPython(values, condition.high, last, above)})`);
  }
  if (low > high && lost) return lost;
  if (!parts.length) return lost ? "np.ones(len(X), bool)" : `~${isNull(of, used)}`;
  const both = parts.join(" & ");
  return lost ? `((${both}) | ${lost})` : both;
}

// The values next to both bounds: the largest below and the smallest from low on, the largest up to high and the
// smallest above; null where there is none.
function nextTo(values, low, high) {
  let below = null, first = null, last = null, above = null;
  for (const value of values) {
    if (value < low) { if (below === null || value > below) below = value; } else if (value >= low && (first === null || value < first)) first = value;
    if (value > high) { if (above === null || value < above) above = value; } else if (value <= high && (last === null || value > last)) last = value;
  }
  return { below, first, last, above };
}

// The bound as it was set; where the page holds rounded values (Float32), a short number between those on its two sides.
function boundPython(values, wanted, under, over) {
  if (!(values instanceof Float32Array) || !finite(under) || !finite(over)) return numberPython(wanted);
  const gap = over - under;
  const clear = (value) => value > under + gap / 8 && value < over - gap / 8;
  if (clear(wanted)) return numberPython(wanted);
  const middle = under + gap / 2;
  for (let digits = 1; digits < 17; digits++) {
    const short = Number(middle.toPrecision(digits));
    if (clear(short)) return numberPython(short);
  }
  return numberPython(middle);
}

const instant = (milliseconds) => {
  const text = new Date(milliseconds).toISOString();
  return `Timestamp(${quoted(text.endsWith("T00:00:00.000Z") ? text.slice(0, 10) : text.slice(0, -1))})`;
};
