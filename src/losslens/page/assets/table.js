// The table of observations: the rows of the subgroup, fifty a page; sort, filter, choose, and jump to a row's curve.

const PAGE = 50;
const COLUMNS_AT_FIRST = 30;

function observations(page) {
  const state = { filter: "", at: 0, chosen: new Set(), wide: false, texts: null };
  byId("table-filter").addEventListener("input", (event) => { state.filter = event.target.value; state.at = 0; draw(); });
  byId("table-back").addEventListener("click", () => { state.at -= 1; draw(); });
  byId("table-on").addEventListener("click", () => { state.at += 1; draw(); });
  byId("table-keep").addEventListener("click", () => {
    page.setCondition("rows", { key: "rows", rows: new Set(state.chosen) });
  });
  byId("table-keep-filtered").addEventListener("click", () => {
    page.setCondition("rows", { key: "rows", rows: new Set(found()) });
  });
  byId("table-wide").addEventListener("click", () => { state.wide = !state.wide; draw(); });

  function columns(wide = state.wide) {
    const { local } = page.data.features[page.open].models[page.model];
    const name = `local importance of ${page.data.features[page.open].name}`;
    const all = [{ key: "index", name: "row", ...guessed(page.data.table.index) },
      { key: "local", name, kind: "number", made: true, values: local }, ...page.columns];
    return wide ? all : all.slice(0, COLUMNS_AT_FIRST);
  }

  // The text of each row, computed once, for the first filter.
  function texts() {
    state.texts ??= Array.from({ length: page.data.n }, (_, i) =>
      [page.rowName(i), ...page.columns.map((column) => textOf(column, i))].join("\n").toLowerCase());
    return state.texts;
  }

  function found() {
    const wanted = state.filter.trim().toLowerCase();
    const rows = Array.from(page.group.rows);
    return wanted ? rows.filter((i) => texts()[i].includes(wanted)) : rows;
  }

  // Missing values come last, whichever way.
  function sorted(shown) {
    const { key, upward } = page.sorts.table ?? {};
    const column = shown.find((one) => one.key === key);
    const rows = found();
    if (!column) return rows;
    const { values } = column, turn = upward ? 1 : -1;
    return rows.sort((a, b) => Number(isLost(values[a])) - Number(isLost(values[b])) || compare(values[a], values[b]) * turn || a - b);
  }

  function sortBy({ key }) {
    state.at = 0;
    page.sortBy("table", key, page.sorts.table?.key === key ? !page.sorts.table.upward : false);
  }

  function heading(column) {
    const is = page.sorts.table?.key === column.key ? (page.sorts.table.upward ? "ascending" : "descending") : "none";
    const button = el("button", { type: "button", "data-key": column.key, title: column.name, onclick: () => sortBy(column) }, column.name);
    return el("th", { scope: "col", "aria-sort": is, class: column.kind === "words" ? null : "number" }, button);
  }

  function tick(i, box) {
    if (box.checked) state.chosen.add(i); else state.chosen.delete(i);
    drawButtons();
  }

  function line(i, shown) {
    const box = el("input", { type: "checkbox", checked: state.chosen.has(i), "aria-label": `choose row ${page.rowName(i)}` });
    box.addEventListener("change", () => tick(i, box));
    const jump = el("button", { type: "button", class: "row", "data-row": i, onclick: () => page.pick(i, true) }, page.rowName(i));
    const cells = shown.slice(1).map((column) => el("td", { class: column.kind === "words" ? null : "number" }, textOf(column, i)));
    const click = (event) => { if (!event.target.closest("button, input")) page.pick(i, true); };
    return el("tr", { class: i === page.picked ? "open" : null, onclick: click }, el("td", {}, box), el("th", { scope: "row" }, jump), cells);
  }

  function drawButtons() {
    byId("table-keep").disabled = !state.chosen.size;
    byId("table-keep").textContent = state.chosen.size ? `Keep the ${count(state.chosen.size)} chosen rows` : "Keep the chosen rows";
    byId("table-keep-filtered").disabled = !state.filter.trim();
  }

  function draw() {
    const shown = columns();
    const rows = sorted(shown);
    const pages = Math.max(1, Math.ceil(rows.length / PAGE));
    state.at = Math.min(Math.max(state.at, 0), pages - 1);
    const here = rows.slice(state.at * PAGE, (state.at + 1) * PAGE);
    byId("table-head").replaceChildren(el("td", {}), ...shown.map(heading));
    byId("table-body").replaceChildren(...here.map((i) => line(i, shown)));
    byId("table-where").textContent = rows.length
      ? `rows ${count(state.at * PAGE + 1)} to ${count(state.at * PAGE + here.length)} of ${count(rows.length)}` : "no rows";
    byId("table-back").disabled = state.at === 0;
    byId("table-on").disabled = state.at >= pages - 1;
    byId("table-wide").hidden = page.columns.length + 2 <= COLUMNS_AT_FIRST;
    byId("table-wide").textContent = state.wide ? "Fewer columns" : `All ${page.columns.length + 2} columns`;
    drawButtons();
  }

  function choose(i) {
    if (state.chosen.has(i)) state.chosen.delete(i); else state.chosen.add(i);
    draw();
  }

  // Everything that is found, in full, for a file.
  function rows() {
    const shown = columns(true);
    const value = (column, i) => (isLost(column.values[i]) ? "" : column.kind === "date" ? date(column.values[i]) : column.values[i]);
    return [shown.map((column) => column.name), ...sorted(shown).map((i) => shown.map((column) => value(column, i)))];
  }

  return { draw, choose, rows, forget() { state.texts = null; } };
}
