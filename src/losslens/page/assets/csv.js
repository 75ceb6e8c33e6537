// Every table of the page as a CSV file: RFC 4180, numbers in full, and no cell that a spreadsheet takes for a formula.

const NUMERIC = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

function csvCell(value) {
  if (value == null || (typeof value === "number" && !Number.isFinite(value))) return "";
  let text = String(value);
  if (/^[\s]*[=+\-@\t\r]/.test(text) && !NUMERIC.test(text)) text = `'${text}`;
  return /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// With a byte order mark, without which spreadsheets misread letters beyond ASCII.
const csvText = (rows) => `\ufeff${rows.map((row) => row.map(csvCell).join(",")).join("\r\n")}\r\n`;

function download(name, text, type = "text/csv") {
  const url = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  const link = el("a", { href: url, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// One button a table, under it; new tables get theirs when the page is drawn again.
function offerCsv(page) {
  for (const table of document.querySelectorAll("main table:not(.leading)")) { // a part of the ranking
    const place = table.closest(".scroll") ?? table;
    if (place.nextElementSibling?.classList.contains("csv")) continue;
    const name = tableName(table);
    place.after(el("button", { type: "button", class: "csv small", "data-csv": name, "aria-label": `${name}: download as CSV`, onclick: () => download(`${name}.csv`, csvText(rowsOfTable(page, table))) }, "CSV"));
  }
}

function tableName(table) {
  const said = table.closest(".scroll")?.getAttribute("aria-label")?.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").toLowerCase();
  return (table.id || table.className.split(" ")[0] || said || table.closest("section")?.id || "table").replace(/-table$/, "");
}

// What is in the page, not what is shown of it: numbers of losses in full, ends of intervals in columns of their own.
function rowsOfTable(page, table) {
  const name = tableName(table);
  const [first, k] = name.split(/-(?=\d+$)/);
  return TABLES[first](page, Number(k) - 1);
}

// One line for each of these, with a column for each key.
const listOf = (all, keys, names = keys) => [names, ...all.map((one) => keys.map((key) => one[key]))];

function rankingRows(page) {
  const numbers = ["pfi", "low", "high", "std_error", "p", "ratio", "sfimp", "sfimp_low", "sfimp_high", "share"];
  const some = !page.group.allRows;
  const head = ["feature", "model", ...(some ? ["rows", "donors", "pfi of the chosen rows", "low of the chosen rows", "high of the chosen rows"] : []), ...numbers.map((name) => (some ? `${name} of all rows` : name))];
  return [head, ...page.data.features.flatMap((feature, f) => feature.models.map((entry, m) => [
    feature.name, page.data.models[m].name, ...(some ? [page.group.rows.length, page.donors, page.numbers[f][m].pfi, page.numbers[f][m].ends.low, page.numbers[f][m].ends.high] : []), ...numbers.map((name) => entry[name]),
  ])), ...blocksOf(page.data).map((one, b) => [one.name, page.data.models[0].name, ...(some ? [page.group.rows.length, page.donors, page.joint[b].pfi, null, null] : []), ...numbers.map((name) => ({ ...one, p: one.p_zero })[name])])];
}

function curveRows(page) {
  const feature = page.data.features[page.open];
  const { pi, pd } = page.view;
  const entry = feature.models[page.model], { allRows } = page.group;
  const curves = [["PI", pi.changes], ["PI low", allRows && entry.pi_low], ["PI high", allRows && entry.pi_high], ["PI of all rows", !allRows && entry.pi], ["PD", pd.mean], ["PD low", pd.band?.low], ["PD high", pd.band?.high], ["PD of all rows", pd.all]]
    .filter(([, curve]) => curve);
  const head = [feature.name, "share of donors", ...curves.map(([name]) => name)];
  return [head, ...feature.labels.map((label, v) => [label, feature.weights[v], ...curves.map(([, curve]) => curve[v])])];
}

function regionRows(page) {
  const { name, regions } = page.data.features[page.open];
  return [["feature", "where", "depth", "rows", "error", "pfi", "low", "high", "p"],
    ...(regions?.tree ?? []).map((one) => [name, one.rule || "all rows", one.depth, one.n, one.error, one.pfi, one.low, one.high, one.p])];
}

const ENDS = ["value", "low", "high"];

// One line a number.
function groupRows(page) {
  const { column, groups, features, models } = page.data.for_whom;
  const lines = (group) => [["error", group.error, group.low, group.high], ["skill", group.skill], ...group.importances.map((one, f) => [`PFI of ${features[f]}`, one.pfi, one.low, one.high])];
  return [["model", column, "rows", "number", ...ENDS],
    ...models.flatMap((model, m) => model.groups.flatMap((group, g) => lines(group).map((line) => [page.data.models[m].name, groups[g].label, groups[g].n, ...line])))];
}

function groupDifferences(page) {
  const { groups, features, models } = page.data.for_whom;
  const line = (number, { value, low, high, p }) => [number, value, low, high, p];
  return [["model", "first", "second", "first less second", ...ENDS, "p"], ...models.flatMap((model, m) => model.differences.flatMap(({ first, second, error, importances }) =>
    [line("error", error), ...importances.map((one, f) => line(`PFI of ${features[f]}`, one))].map((one) => [page.data.models[m].name, groups[first].label, groups[second].label, ...one])))];
}

const pairRows = (page) => listOf(page.data.interactions.pairs, ["first", "second", "value", "std_error", "low", "high", "p"], ["first", "second", "interaction", "std_error", "low", "high", "p"]);

function segmentRows(page) {
  const { whole, segments } = page.data.segments;
  const held = ["judged", "judged_error", "judged_low", "judged_high", "judged_other"];
  return listOf([{ ...whole, rule: "all rows", share: 1 }, ...segments], ["rule", "n", "share", "error", "low", "high", "other", ...held, "p"],
    ["where", "rows", "share", "error", "low", "high", "error elsewhere", "held-out rows", "their error", "their low", "their high", "their error elsewhere", "p"]);
}

const modelRows = (page) => [["model", "error", "low", "high", "best constant", "skill", ...(page.group.allRows ? [] : ["rows", "error in the subgroup"])],
  ...page.data.models.map((one, m) => [one.name, one.error, one.error_low, one.error_high, one.error_constant, one.skill, ...(page.group.allRows ? [] : [page.group.rows.length, page.errors[m]])])];

function modelDifferences(page) {
  const { data: { models, features, compared: { differences } } } = page;
  const line = (first, second, number, { value, low, high, p }) => [models[first].name, models[second].name, number, value, low, high, p];
  return [["first", "second", "first less second", ...ENDS, "p"], ...differences.flatMap(({ first, second, error, importances }) =>
    [line(first, second, "error", error), ...importances.map((one, f) => line(first, second, `PFI of ${features[f].name}`, one))])];
}

const qualityOf = (page) => page.data.models[page.model].quality;

const residualRows = (page) => [["low", "high", "rows", "prediction", "mean residual", "mean low", "mean high", ...[5, 25, 50, 75, 95].map((q) => `residual at ${q}%`)],
  ...qualityOf(page).residuals.map((one) => [one.low, one.high, one.n, one.predicted, one.mean, one.mean_low, one.mean_high, ...one.quantiles])];

function calibrationRows(page, k) {
  const { label, ranges } = qualityOf(page).calibration[k];
  const keys = ["low", "high", "n", "predicted", "observed", "observed_low", "observed_high"];
  return [["class", "low", "high", "rows", ...keys.slice(3)], ...ranges.map((one) => [label, ...keys.map((key) => one[key])])];
}

function confusionRows(page) {
  const { labels, shares, rows } = qualityOf(page).confusion;
  return [["true class", "rows", "predicted class", "share of all rows"], ...labels.flatMap((label, i) => labels.map((other, j) => [label, rows[i], other, shares[i][j]]))];
}

function suspiciousRows(page) {
  const { rows, table: { y, models: [model] } } = page.data;
  return [["row", "target", "prediction", "loss", "importance", "largest influence", "influence"], ...Array.from(rows.suspicious, (i, k) =>
    [page.rowName(i), y[i], (model.label ?? model.prediction)?.[i], model.loss[i], rows.importance[i], rows.influence_on?.[k], rows.influence?.[k]])];
}

const mapRows = ({ data: { interactions: { map } } }) => [[map.first, map.second, "rows with both", "mean loss", "mean prediction"],
  ...map.rows.flatMap((label, u) => map.columns.map((other, v) => [label, other, map.count[u][v], map.loss[u][v], map.prediction?.[u][v]]))];

const clusterRows = (page) => [["cluster", "rows", "share", "rule", "feature", "mean SFIMP", "stability"], ...page.data.clusters.clusters.flatMap((one, c) =>
  one.known_by.map(({ name, value }) => [c + 1, one.n, one.share, one.rule, name, value, one.stability]))];

const scoreRows = ({ data: { score } }) => [["feature", "model", "importance", "low", "high"], ...score.models.map((one) => [`${score.name} as it is`, one.name, one.base, one.low, one.high]),
  ...score.features.flatMap(({ name, models }) => models.map((one, m) => [name, score.models[m].name, one.pfi, one.low, one.high]))];

const scoreGroupRows = ({ data: { score: { name, groups } } }) => [[groups.column, "rows", "number", ...ENDS], ...groups.groups.flatMap((one) =>
  [[name, one.base, one.low, one.high], ...one.importances.map((each, f) => [`importance of ${groups.features[f]}`, each.pfi, each.low, each.high])].map((line) => [one.label, one.n, ...line]))];

const helpedRows = ({ data: { rows } }) => [["rows", "number"], ["helped", rows.helped], ["hurt", rows.hurt], ["below the fence", rows.n_suspicious]];

const blockRows = ({ data: { blocks } }) => [["features", "pfi", "low", "high", "sum of each alone", "most important alone", "its pfi", "case", "p", "p of no importance"],
  ...blocks.blocks.map((one) => [one.features.join(", "), one.pfi, one.low, one.high, one.sum, one.largest, one.largest_pfi, one.case, one.p, one.p_zero])];

const unrealRows = ({ data: { blocks } }) => [["feature", "unlike any real row", "pfi", "pfi of its block", "pfi given the other columns", "low", "high"],
  ...blocks.unreal.map((one) => [one.name, one.share, one.pfi, one.block, one.given, one.low, one.high])];

const TABLES = {
  ranking: rankingRows, observations: (page) => page.parts.table.rows(), curve: curveRows, "lines-pi": curveRows, "lines-pd": curveRows,
  regions: regionRows, together: pairRows, "pair-map-error": mapRows, "pair-map-prediction": mapRows, "for-whom": groupRows, differences: groupDifferences, segments: segmentRows, models: modelRows, told: modelRows,
  "model-features": modelDifferences, residuals: residualRows, calibration: calibrationRows, confusion: confusionRows,
  suspicious: suspiciousRows, helped: helpedRows, blocks: blockRows, unreal: unrealRows, clusters: clusterRows, "by-score": scoreRows, "score-groups": scoreGroupRows,
};
