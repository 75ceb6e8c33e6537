// Columns of the table, the card and the conditions, and the conditions themselves.

const WORDS = new Set(["words", "group"]);

// All columns: target, prediction and loss of the chosen model, then those of the table.
function columnsOf(data, model) {
  const { table } = data;
  const made = table.models[model];
  return [
    { key: "y", name: "target", ...guessed(table.y) },
    made.label && { key: "label", name: "predicted class", made: true, ...guessed(made.label) },
    made.prediction && { key: "prediction", name: predictionName(data.target), made: true, ...guessed(made.prediction) },
    { key: "loss", name: "loss", made: true, ...guessed(made.loss) },
    ...table.columns.map((column, k) => ({ ...column, key: `x${k}`, own: true })), // a feature may be called "loss", too
    ...foundColumns(data),
  ].filter(Boolean);
}

// What the model's number is: for a classifier the probability of a class, which is named.
function predictionName(target, k = target?.shown) {
  if (!target?.classes) return "prediction";
  const what = { probabilities: "probability of", scores: "score of", labels: "share predicted as" }[target.reads];
  return what ? `${what} ${target.classes[k]}` : "prediction";
}

const guessed = (values) => ({ values, kind: Array.isArray(values) ? "words" : "number" });

// A missing value and the category "missing" are not the same.
const word = (value) => (value === null ? "missing" : value === "missing" ? "“missing”" : value);

function textOf(column, i) {
  const value = column.values[i];
  if (column.kind === "date") return date(value);
  if (typeof value === "number") return Number.isNaN(value) ? "missing" : column.made ? number(value) : plain(value);
  return word(value);
}

const valueText = (column, value) => (column.kind === "date" ? date(value) : plain(value));

// Float32 columns are compared as such: a bound typed as 0.1 includes a row that holds 0.1.
function holds(condition, columns) {
  if (condition.rows) return (i) => condition.rows.has(i);
  const { values } = columns.find((column) => column.key === condition.key);
  if (condition.chosen) return (i) => condition.chosen.has(values[i]);
  const low = values instanceof Float32Array ? Math.fround(condition.low) : condition.low;
  const high = values instanceof Float32Array ? Math.fround(condition.high) : condition.high;
  return (i) => (values[i] >= low && values[i] <= high) || (condition.missing && Number.isNaN(values[i]));
}

function rowsThat(conditions, columns, n) {
  const tests = conditions.map((condition) => holds(condition, columns));
  const rows = [];
  for (let i = 0; i < n; i++) if (tests.every((test) => test(i))) rows.push(i);
  return Int32Array.from(rows);
}

function inWords(condition, columns) {
  if (condition.rows) return condition.rows.size === 1 ? "1 chosen row" : `${count(condition.rows.size)} chosen rows`;
  const column = columns.find((one) => one.key === condition.key);
  if (condition.chosen) {
    const chosen = [...condition.chosen].map(word);
    const few = chosen.slice(0, 4);
    if (chosen.length > few.length) few.push(`${chosen.length - few.length} more`);
    return `${column.name} is ${chosen.length > 1 ? "one of " : ""}${listed(few)}`;
  }
  if (condition.low > condition.high && condition.missing) return `${column.name} is missing`;
  const or = condition.missing ? " or missing" : "";
  if (condition.low === condition.high) return `${column.name} is ${valueText(column, condition.low)}${or}`;
  return `${column.name} from ${valueText(column, condition.low)} to ${valueText(column, condition.high)}${or}`;
}

function distinct(column) {
  if (!column.distinct) {
    const counts = new Map();
    for (const value of column.values) counts.set(value, (counts.get(value) ?? 0) + 1);
    column.distinct = [...counts].sort((a, b) => b[1] - a[1]);
  }
  return column.distinct;
}

// Of finite values; [0, 1] where there are none.
function finiteExtent(values) {
  const [low, high] = extent(Array.from(values).filter(finite));
  return low <= high ? [low, high] : [0, 1];
}

function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}
