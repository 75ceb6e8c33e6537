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

// A missing value: NaN among numbers and dates, null among words.
const isLost = (value) => value === null || Number.isNaN(value);

function textOf(column, i) {
  const value = column.values[i];
  return column.made && finite(value) ? number(value) : valueText(column, value);
}

function valueText(column, value) {
  if (isLost(value)) return "(missing)";
  if (column.kind === "date") return date(value);
  return typeof value === "number" ? plain(value) : wordText(value);
}

// A category that looks like nothing, or like a missing value, is quoted.
const wordText = (word) => (word.trim() === "" || word === "(missing)" ? `"${word}"` : word);

function holds(condition, columns) {
  if (condition.rows) return (i) => condition.rows.has(i);
  const { values } = columns.find((column) => column.key === condition.key);
  const test = accepts(condition, values);
  return (i) => test(values[i]);
}

// Which values a condition accepts. Float32 columns are compared as such: a bound typed as 0.1 includes a row that
// holds 0.1.
function accepts(condition, values) {
  if (condition.chosen) return (value) => condition.chosen.has(value);
  const [low, high] = endsOf(condition, values);
  return (value) => (value >= low && value <= high) || (condition.missing && Number.isNaN(value));
}

const endsOf = ({ low, high }, values) => (values instanceof Float32Array ? [Math.fround(low), Math.fround(high)] : [low, high]);

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
    const chosen = [...condition.chosen].map((value) => valueText(column, value));
    const few = chosen.slice(0, 4);
    if (chosen.length > few.length) few.push(`${chosen.length - few.length} more`);
    return `${column.name} is ${chosen.length > 1 ? "one of " : ""}${listed(few)}`;
  }
  if (condition.low > condition.high && condition.missing) return `${column.name} is missing`;
  const or = condition.missing ? " or missing" : "";
  if (condition.low === condition.high) return `${column.name} is ${valueText(column, condition.low)}${or}`;
  if (condition.low === -Infinity && condition.high === Infinity) return condition.missing ? `any ${column.name}` : `${column.name} is known`;
  if (condition.low === -Infinity) return `${column.name} up to ${valueText(column, condition.high)}${or}`;
  if (condition.high === Infinity) return `${column.name} from ${valueText(column, condition.low)} on${or}`;
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
