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

function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
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

// What is in the page, not only what is shown of it; other tables as they are shown.
function rowsOfTable(page, table) {
  const whole = { ranking: rankingRows, observations: () => page.parts.table.rows(), curve: curveRows, "lines-pi": curveRows, "lines-pd": curveRows, regions: regionRows, together: pairRows, "for-whom": groupRows };
  const name = tableName(table);
  return Object.hasOwn(whole, name) ? whole[name](page) : shownRows(table);
}

function rankingRows(page) {
  const numbers = ["pfi", "low", "high", "std_error", "p", "ratio", "sfimp", "sfimp_low", "sfimp_high", "share"];
  const some = !page.group.allRows;
  const head = ["feature", "model", ...(some ? ["rows", "donors", "pfi of the chosen rows", "low of the chosen rows", "high of the chosen rows"] : []), ...numbers.map((name) => (some ? `${name} of all rows` : name))];
  return [head, ...page.data.features.flatMap((feature, f) => feature.models.map((entry, m) => [
    feature.name, page.data.models[m].name, ...(some ? [page.group.rows.length, page.donors, page.numbers[f][m].pfi, page.numbers[f][m].ends.low, page.numbers[f][m].ends.high] : []), ...numbers.map((name) => entry[name]),
  ]))];
}

function curveRows(page) {
  const feature = page.data.features[page.open];
  const { pi, pd } = page.view;
  const curves = [["PI", pi.mean], ["PI low", pi.band?.low], ["PI high", pi.band?.high], ["PI of all rows", pi.all], ["PD", pd.mean], ["PD low", pd.band?.low], ["PD high", pd.band?.high], ["PD of all rows", pd.all]]
    .filter(([, curve]) => curve);
  const head = [feature.name, "share of donors", ...curves.map(([name]) => name)];
  return [head, ...feature.labels.map((label, v) => [label, feature.weights[v], ...curves.map(([, curve]) => curve[v])])];
}

function regionRows(page) {
  const { name, regions } = page.data.features[page.open];
  return [["feature", "where", "depth", "rows", "pfi", "low", "high", "p"],
    ...(regions?.tree ?? []).map((one) => [name, one.rule || "all rows", one.depth, one.n, one.pfi, one.low, one.high, one.p])];
}

// One line a number.
function groupRows(page) {
  const { column, groups, features, models } = page.data.for_whom;
  const lines = (group) => [["error", group.error, group.low, group.high], ["skill", group.skill], ...group.importances.map((one, f) => [`PFI of ${features[f]}`, one.pfi, one.low, one.high])];
  return [["model", column, "rows", "number", "value", "low", "high"],
    ...models.flatMap((model, m) => model.groups.flatMap((group, g) => lines(group).map(([name, value, low, high]) => [page.data.models[m].name, groups[g].label, groups[g].n, name, value, low, high])))];
}

function pairRows(page) {
  const keys = ["first", "second", "value", "std_error", "low", "high", "p"];
  return [["first", "second", "interaction", ...keys.slice(3)], ...page.data.interactions.pairs.map((one) => keys.map((key) => one[key]))];
}

function shownRows(table) {
  return [...table.rows].map((row) => [...row.cells].map(shownValue));
}

// A number in full where the page has it; a number that was written for reading as one for computing.
function shownValue(cell) {
  const outputs = cell.querySelectorAll("output[data-value]");
  if (outputs.length === 1) return outputs[0].dataset.value;
  const text = cell.textContent.replace(/\s+/g, " ").trim();
  const simple = text.replaceAll("−", "-").replace(/(?<=\d),(?=\d{3})/g, "");
  return NUMERIC.test(simple) ? simple : text === "–" ? "" : text;
}
