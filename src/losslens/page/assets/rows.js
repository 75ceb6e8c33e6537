// Importances of rows: their distribution, rows that look wrong, and clusters of rows by local SFIMP. All of the first
// model.

const ROW_BINS = 60;
const clusterName = (c) => (c < 0 ? "none" : `cluster ${c + 1}`);

// Columns that these findings add to the table and to conditions.
function foundColumns(data) {
  const of = data.models.length > 1 ? `, ${data.models[0].name}` : "";
  const found = [];
  if (data.rows) found.push({ key: "worth", name: `row importance${of}`, kind: "number", made: true, values: data.rows.importance });
  if (data.clusters?.clusters.length > 1) {
    found.push({ key: "cluster", name: `cluster${of}`, kind: "words", made: true, values: Array.from(data.clusters.labels, clusterName) });
  }
  return found;
}

function rowFindings(page) {
  const { rows, clusters } = page.data;
  if (rows) fillSuspicious(page, rows);
  if (clusters && byId("clusters-body")) {
    byId("clusters-body").replaceChildren(...clusters.clusters.map((one, c) => clusterLine(page, one, c)));
  }
}

function fillSuspicious(page, rows) {
  if (!byId("suspicious-body")) return;
  const columns = columnsOf(page.data, 0);
  const text = (key, i) => textOf(columns.find((one) => one.key === key), i);
  const line = (i, k) => el("tr", { onclick: (event) => { if (!event.target.closest("button")) page.pick(i, true); } },
    el("th", { scope: "row" }, el("button", { type: "button", class: "row", "data-row": i, onclick: () => page.pick(i, true) }, page.rowName(i))),
    ["y", columns.some((one) => one.key === "label") ? "label" : "prediction", "loss"].map((key) => el("td", { class: "number" }, text(key, i))),
    el("td", { class: "number" }, output(`worth-${i}`, rows.importance[i], `importance of row ${page.rowName(i)}`)),
    rows.influence ? el("td", {}, rows.influence_on[k], quiet(` ${rows.influence[k] > 0 ? "+" : ""}${number(rows.influence[k], 3)}`)) : null);
  byId("suspicious-body").replaceChildren(...rows.suspicious.map(line));
}

function clusterLine(page, one, c) {
  const features = one.known_by.flatMap(({ name, value }, k) => [k ? ", " : "", name, quiet(` ${number(value, 3)}`)]);
  const look = el("button", {
    type: "button", class: "small", "data-cluster": c, "aria-label": `Show ${clusterName(c)}`,
    onclick: () => page.setCondition("cluster", { key: "cluster", chosen: new Set([clusterName(c)]) }),
  }, "Show");
  return el("tr", {},
    el("th", { scope: "row" }, String(c + 1)),
    el("td", { class: "number" }, count(one.n), quiet(` ${number(100 * one.share, 2)}%`)),
    el("td", { class: "rule" }, one.rule || "no rule"),
    el("td", {}, features),
    el("td", { class: "number" }, number(one.stability, 2)),
    el("td", {}, look));
}

// Bars of all rows and of the subgroup; suspicious rows are marked.
function drawRowFindings(page) {
  const { rows } = page.data;
  if (!rows) return;
  const values = rows.importance;
  const [low, high] = finiteExtent(values);
  const width = (high - low || 1) / ROW_BINS;
  const place = (value) => Math.min(ROW_BINS - 1, Math.max(0, Math.floor((value - low) / width)));
  const all = new Float64Array(ROW_BINS), some = new Float64Array(ROW_BINS);
  for (const value of values) if (finite(value)) all[place(value)]++;
  for (const i of page.group.rows) if (finite(values[i])) some[place(values[i])]++;
  const top = Math.max(...all, 1), tall = 110;
  const at = (value) => (100 * (value - low)) / (high - low || 1);
  const bar = (counts, kind) => Array.from(counts, (times, b) => (times
    ? svg("rect", { class: kind, x: `${(100 * b) / ROW_BINS}%`, width: `${100 / ROW_BINS}%`, y: tall - heightOf(times, top, tall), height: heightOf(times, top, tall) }) : null));
  const marks = rows.suspicious.map((i) => svg("circle", { class: "wrong", cx: `${at(values[i])}%`, cy: tall + 7, r: 3.5 }));
  const zero = low < 0 && high > 0 ? line("zero strong", at(0), at(0), 0, tall + 4) : null;
  byId("worth-chart").replaceChildren(svg("svg", {
    class: "worth", role: "img", height: tall + 14, "aria-label": `Row importances from ${number(low)} to ${number(high)}`,
  }, bar(all, "all"), bar(some, "some"), zero, marks));
  byId("worth-low").textContent = number(low);
  byId("worth-high").textContent = number(high);
}

// Heights are square roots of counts, so that bins of few rows stay visible.
const heightOf = (times, top, tall) => Math.max(1.5, tall * Math.sqrt(times / top));
