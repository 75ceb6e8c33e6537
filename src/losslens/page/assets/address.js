// The state of the page in its address, after the #: the open feature, the conditions, the donors, the order of the
// tables and the model. It survives a reload, the back button undoes a step, and it can be mailed with the file.
// Whatever stands there was perhaps not written by this page: what isn't understood is left out.

const STATE = ["feature", "where", "donors", "model", "class", "sort", "ranking"];

function stateText(page) {
  const said = new URLSearchParams();
  if (page.open !== 0) said.set("feature", page.data.features[page.open].name);
  for (const condition of page.conditions) said.append("where", JSON.stringify(writtenCondition(page, condition)));
  if (page.donors !== "given") said.set("donors", page.donors);
  if (page.model !== 0) said.set("model", page.data.models[page.model].name);
  if (page.shownClass !== page.data.target.shown) said.set("class", page.data.target.classes[page.shownClass]);
  if (page.sorts.table) said.set("sort", JSON.stringify([writtenColumn(page, page.sorts.table.key), page.sorts.table.upward]));
  if (page.sorts.ranking) said.set("ranking", JSON.stringify([page.sorts.ranking.key, page.sorts.ranking.upward]));
  return said.toString();
}

// Columns of the table by name, others by key: a column may be called "loss", too.
function writtenColumn(page, key) {
  const column = page.columns.find((one) => one.key === key);
  return column?.own ? { column: column.name } : { made: key };
}

function writtenCondition(page, condition) {
  if (condition.rows) return { rows: runsOf([...condition.rows]) };
  const { key, chosen, low, high, missing } = condition;
  if (chosen) return { ...writtenColumn(page, key), in: [...chosen].map((value) => (isLost(value) ? null : value)) };
  return {
    ...writtenColumn(page, key), ...(finite(low) ? { from: low } : {}), ...(finite(high) ? { to: high } : {}),
    ...(missing ? { missing: true } : {}),
  };
}

// 3, 4, 5 and 9 as "3-5,9".
function runsOf(rows) {
  const runs = [];
  for (const row of rows.sort((a, b) => a - b)) {
    if (runs.length && runs.at(-1)[1] === row - 1) runs.at(-1)[1] = row; else runs.push([row, row]);
  }
  return runs.map(([first, last]) => (first === last ? String(first) : `${first}-${last}`)).join(",");
}

// The state that an address describes; null where it is none, but the place of a section.
function readState(page, text) {
  const said = new URLSearchParams(text.replace(/^#/, ""));
  if (text.length > 1 && !STATE.some((name) => said.has(name))) return null;
  const named = (list, name) => Math.max(0, list.findIndex((one) => one.name === said.get(name)));
  const model = named(page.data.models, "model");
  const { classes, drawn, shown } = page.data.target;
  const ofClass = drawn?.find((k) => classes[k] === said.get("class")) ?? shown;
  const columns = columnsOf(page.data, model);
  const found = new Map();
  for (const condition of said.getAll("where").map((one) => readCondition(page, columns, parsed(one)))) {
    if (condition) found.set(condition.key, condition);
  }
  return {
    open: named(page.data.features, "feature"), model, conditions: [...found.values()],
    shownClass: ofClass, donors: said.get("donors") === "subset" ? "subset" : "given",
    sorts: { table: readSort(columns, parsed(said.get("sort"))), ranking: readOrder(parsed(said.get("ranking"))) },
  };
}

function parsed(text) {
  try { return JSON.parse(text); } catch { return null; }
}

function readColumn(columns, said) {
  if (said === null || typeof said !== "object") return undefined;
  return columns.find((one) => (one.own ? one.name === said.column : one.key === said.made));
}

function readCondition(page, columns, said) {
  if (said === null || typeof said !== "object") return null;
  if (typeof said.rows === "string") return readRows(page, said.rows);
  const column = readColumn(columns, said);
  if (!column) return null;
  const { key } = column;
  if (Array.isArray(said.in)) {
    const held = new Set(column.values);
    const lost = column.kind === "words" ? null : NaN;
    const chosen = new Set(said.in.map((value) => value ?? lost).filter((value) => held.has(value)));
    return chosen.size ? { key, chosen } : null;
  }
  if (column.kind === "words" || !(finite(said.from) || finite(said.to) || said.missing === true)) return null;
  const end = (value, none) => (finite(value) ? value : none);
  return { key, low: end(said.from, -Infinity), high: end(said.to, Infinity), missing: said.missing === true };
}

function readRows(page, text) {
  const rows = new Set();
  for (const run of text.split(",")) {
    const [, first, last] = /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(run) ?? [];
    if (first === undefined) continue;
    for (let i = Number(first); i <= Math.min(Number(last ?? first), page.data.n - 1); i++) rows.add(i);
  }
  return rows.size ? { key: "rows", rows } : null;
}

function readSort(columns, said) {
  if (!Array.isArray(said)) return null;
  const [where, upward] = said;
  const key = readColumn(columns, where)?.key ?? ["index", "local"].find((one) => one === where?.made);
  return key ? { key, upward: upward === true } : null;
}

const readOrder = (said) => (Array.isArray(said) && typeof said[0] === "string" ? { key: said[0], upward: said[1] === true } : null);

// A step of its own in the history; in a notebook's frame, whose steps would be the notebook's, none.
function remember(page) {
  const text = stateText(page);
  if (text === page.address) return;
  page.address = text;
  const framed = window.parent !== window;
  try {
    if (framed) sessionStorage.setItem(storageKey(page), text);
    history[framed ? "replaceState" : "pushState"](null, "", `#${text}`);
  } catch { /* a sandboxed frame has neither storage nor address */ }
}

const storageKey = (page) => `losslens ${document.title} ${page.data.n} ${page.data.features.map((one) => one.name).join()}`;

// What the address says, or what a notebook's frame, which is made anew with its cell, said last.
function addressed(page) {
  if (location.hash || window.parent === window) return location.hash;
  try {
    return `#${sessionStorage.getItem(storageKey(page)) ?? ""}`;
  } catch {
    return "";
  }
}

function followAddress(page) {
  addEventListener("popstate", () => {
    const state = readState(page, location.hash);
    if (!state) return;
    page.address = location.hash.slice(1);
    page.restore(state);
  });
  // A link within the page scrolls, and leaves the state alone.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    const target = link && byId(link.getAttribute("href").slice(1));
    if (!target) return;
    event.preventDefault();
    for (const fold of target.matches("details") ? [target] : target.querySelectorAll(":scope > details")) fold.open = true;
    if (!target.hasAttribute("tabindex")) target.setAttribute("tabindex", "-1");
    show(target);
  });
}
