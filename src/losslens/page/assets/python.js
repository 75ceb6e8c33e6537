// The subgroup as Python: the call that chooses the same rows of the table that the report was made of.

function asPython(page) {
  const { data, conditions } = page;
  const used = new Set();
  const parts = conditions.map((condition) => pythonOf(page, condition, used));
  const many = page.data.n < page.data.n_given ? [`# The page holds ${count(data.n)} of ${count(data.n_given)} rows; this chooses among all of X.`] : [];
  const loss = /^\w+$/.test(data.loss.name) ? `, loss=${quoted(data.loss.name)}` : "";
  const rows = parts.length ? [`rows = ${parts.length > 1 ? `(\n    ${parts.join("\n    & ")}\n)` : parts[0]}`] : [];
  const chosen = parts.length ? `.${page.donors}(np.asarray(rows))` : "";
  const imports = ["import losslens as ll", ...(used.has("np") || parts.length ? ["import numpy as np"] : []), ...(used.has("pd") ? ["import pandas as pd"] : [])];
  return [
    ...imports, "", ...many, ...rows,
    `importances = ll.feature_importance(model, X, y${loss})`,
    `importances${chosen}[${quoted(data.features[page.open].name)}]`,
  ].join("\n");
}

// JSON's strings are Python's, too.
const quoted = (text) => JSON.stringify(text);

function pythonOf(page, condition, used) {
  const column = condition.rows ? null : page.columns.find((one) => one.key === condition.key);
  const of = column && (column.key === "y" ? "np.asarray(y)" : column.code);
  if (!of) return listedRows(page, condition, used);
  if (of.includes("np.")) used.add("np");
  if (of.includes("pd.")) used.add("pd");
  return condition.chosen ? chosenPython(column, of, condition.chosen) : rangePython(column, of, condition, used);
}

// What Python can't say about the table (a prediction, a loss, a cluster), and rows chosen by hand: one by one.
function listedRows(page, condition, used) {
  used.add("np");
  const test = holds(condition, page.columns);
  const { n, n_given: given, table } = page.data;
  const rows = Array.from({ length: n }, (_, i) => i).filter(test);
  if (n === given) return `np.isin(np.arange(len(X)), [${rows.join(", ")}])`;
  const names = rows.map((i) => table.index[i]).map((name) => (typeof name === "number" ? name : quoted(name)));
  return `np.isin(${table.row_code ?? "np.arange(len(X))"}, [${names.join(", ")}])`;
}

function chosenPython(column, of, chosen) {
  const there = [...chosen].filter((value) => !isLost(value));
  const lost = there.length < chosen.size ? `${isNull(of)}` : null;
  const literals = new Map(column.literals ?? []);
  const values = there.map((value) => literals.get(value) ?? (typeof value === "number" ? numberPython(value) : quoted(value)));
  const texts = column.as_text ? textsOf(of) : of; // values that have no simple literal are compared as text
  const among = values.length ? amongPython(texts, values) : null;
  return among && lost ? `(${among} | ${lost})` : among ?? lost;
}

const isArray = (of) => of.startsWith("np.") || /^X\[:, \d+\]$/.test(of);
const textsOf = (of) => (isArray(of) ? `np.array([repr(value) for value in ${of}])` : `${of}.map(repr)`);
const amongPython = (of, values) => (isArray(of) ? `np.isin(${of}, [${values.join(", ")}])` : `${of}.isin([${values.join(", ")}])`);
const isNull = (of) => (isArray(of) ? `pd.isna(${of})` : `${of}.isna()`);
const numberPython = (value) => (Object.is(value, -0) ? "0" : String(value));

// A bound that no row of the page is beyond is left out: it may be rounded.
function rangePython(column, of, condition, used) {
  const { values } = column;
  const [low, high] = endsOf(condition, values);
  const ends = nextTo(values, low, high);
  const lost = condition.missing ? isNull(of) : null;
  if (lost?.startsWith("pd.")) used.add("pd");
  const parts = [];
  if (column.kind === "date") {
    used.add("pd");
    if (ends.below !== null) parts.push(`(${of} >= ${instant(column, condition.low)})`);
    if (ends.above !== null) parts.push(`(${of} < ${instant(column, Math.floor(condition.high) + 1)})`); // the page knows milliseconds
  } else {
    if (ends.below !== null) parts.push(`(${of} >= ${boundPython(values, condition.low, ends.below, ends.first)})`);
    if (ends.above !== null) parts.push(`(${of} <= ${boundPython(values, condition.high, ends.last, ends.above)})`);
  }
  if (low > high && lost) return lost;
  if (!parts.length) {
    if (isNull(of).startsWith("pd.")) used.add("pd");
    return lost ? "np.ones(len(X), bool)" : `~${isNull(of)}`;
  }
  const both = parts.join(" & ");
  return lost ? `((${both}) | ${lost})` : both;
}

// The values next to both bounds: the largest below and the smallest from low on, the largest up to high and the
// smallest above; null where there is none.
function nextTo(values, low, high) {
  let below = -Infinity, first = Infinity, last = -Infinity, above = Infinity;
  for (const value of values) {
    if (value < low) { if (value > below) below = value; } else if (value < first) first = value;
    if (value > high) { if (value < above) above = value; } else if (value > last) last = value;
  }
  const known = (value) => (finite(value) ? value : null);
  return { below: known(below), first: known(first), last: known(last), above: known(above) };
}

// The bound as it was set; where the page holds rounded values (Float32), a short number between those on its two sides.
function boundPython(values, wanted, under, over) {
  if (!(values instanceof Float32Array) || under === null || over === null) return numberPython(wanted);
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

const instant = (column, milliseconds) => {
  if (column.duration) return `pd.Timedelta(milliseconds=${milliseconds})`;
  const text = new Date(milliseconds).toISOString();
  return `pd.Timestamp(${quoted(text.endsWith("T00:00:00.000Z") ? text.slice(0, 10) : text.slice(0, -1))})`;
};
