// The bar of the subgroup: one line that says which rows are chosen, and a fold under it with the conditions, the
// choice of donors, and the same rows as Python.

const MOST_CHOICES = 60; // categories offered of a column: the most frequent ones
const FEW_VALUES = 12; // integers with at most so many values are boxes, like categories
const MANY_COLUMNS = 20; // above: a field to find one

function subgroupBar(page) {
  const choose = byId("condition-column");
  byId("column-search-label").hidden = page.columns.length <= MANY_COLUMNS;
  offerColumns(page);
  const first = page.columns.find((column) => column.own && column.name === page.data.by) ?? page.columns.find((column) => column.own) ?? page.columns[0];
  choose.value = first.key;
  choose.addEventListener("change", () => editor(page));
  byId("column-search").addEventListener("input", () => { offerColumns(page); editor(page); });
  byId("clear").addEventListener("click", () => page.clear());
  byId("condition-form").addEventListener("submit", (event) => { event.preventDefault(); apply(page); });
  for (const radio of document.querySelectorAll("input[name=donors]")) {
    radio.addEventListener("change", () => page.setDonors(radio.value));
  }
  folds(page);
  editor(page);
}

// The columns whose names contain what is looked for; the one that was chosen stays chosen if it is among them.
function offerColumns(page) {
  const choose = byId("condition-column");
  const wanted = byId("column-search").value.trim().toLowerCase();
  const found = page.columns.filter((column) => column.name.toLowerCase().includes(wanted));
  const before = choose.value;
  choose.replaceChildren(...found.map((column) => el("option", { value: column.key, title: column.name }, shortened(column.name, 80))));
  if (found.some((column) => column.key === before)) choose.value = before;
  choose.disabled = found.length === 0;
  byId("column-found").textContent = wanted ? (found.length ? `${count(found.length)} of ${count(page.columns.length)} columns` : "No column has this name.") : "";
}

// The fold lies over the page, so that it goes away by itself: with Escape, with a click beside it, and when
// something is opened. The line stays: --bar-height is its height, which nothing that is scrolled to is behind.
function folds(page) {
  const bar = byId("subgroup"), fold = byId("add");
  const close = (focus) => {
    if (!fold.open) return;
    fold.open = false;
    if (focus) fold.querySelector("summary").focus({ preventScroll: true });
  };
  fold.addEventListener("keydown", (event) => { if (event.key === "Escape") { event.stopPropagation(); close(true); } });
  byId("done").addEventListener("click", () => close(true));
  document.addEventListener("pointerdown", (event) => { if (!bar.contains(event.target)) close(false); });
  byId("python").addEventListener("click", () => showPython(page, byId("python-code").hidden));
  byId("python-copy").addEventListener("click", copyPython);
  const measure = () => document.documentElement.style.setProperty("--bar-height", `${bar.offsetHeight}px`);
  new ResizeObserver(measure).observe(bar);
  measure();
}

function showPython(page, shown) {
  byId("python-code").hidden = byId("python-copy").hidden = !shown;
  byId("python").setAttribute("aria-expanded", String(shown));
  drawPython(page);
}

function drawPython(page) {
  const code = byId("python-code");
  byId("python-copied").textContent = "";
  if (code.hidden) return;
  code.value = asPython(page);
  code.rows = code.value.split("\n").length + 1;
}

// In a frame the clipboard may be forbidden: the text is selected then, to be copied by hand.
async function copyPython() {
  const code = byId("python-code");
  const done = await copied(code.value);
  if (!done) { code.focus(); code.select(); }
  byId("python-copied").textContent = done ? "Copied." : "Selected: copy it with your keyboard.";
}

async function copied(text) {
  try { await navigator.clipboard.writeText(text); return true; } catch { return false; }
}

// The address holds what is shown: the feature, the chosen rows, the model.
async function copyLink() {
  byId("link").textContent = (await copied(location.href)) ? "Link copied" : "Copy the address of this page";
  setTimeout(() => { byId("link").textContent = "Copy link"; }, 4000);
}

const chosenColumn = (page) => page.columns.find((column) => column.key === byId("condition-column").value);

function editor(page) {
  const column = chosenColumn(page);
  const fields = !column ? [] : isBoxed(column) ? choices(page, column) : bounds(page, column);
  byId("condition-fields").replaceChildren(...fields);
}

// Categories, and integers of few values.
function isBoxed(column) {
  column.boxed ??= column.kind === "words" || fewIntegers(column.values);
  return column.boxed;
}

function fewIntegers(values) {
  const seen = new Set();
  for (const value of values) {
    if (!Number.isInteger(value) && !Number.isNaN(value)) return false;
    if (seen.add(value).size > FEW_VALUES) return false;
  }
  return true;
}

// Categories are offered by frequency, integers in their order; missing values come last.
function offered(column) {
  const all = [...distinct(column)];
  const lost = all.filter(([value]) => isLost(value));
  const there = all.filter(([value]) => !isLost(value));
  if (column.kind !== "words") there.sort((a, b) => a[0] - b[0]);
  return [...there.slice(0, MOST_CHOICES), ...lost];
}

function choices(page, column) {
  const now = page.conditions.find((condition) => condition.key === column.key);
  const ticked = now ? accepts(now, column.values) : () => false;
  const shown = offered(column);
  const boxes = shown.map(([value, times]) => {
    const box = el("input", { type: "checkbox", value: valueText(column, value), checked: ticked(value), onchange: () => apply(page) });
    box.category = value; // not its position, which differs between models
    return el("label", { class: "choice" }, box, valueText(column, value), quiet(` ${count(times)}`));
  });
  const rest = distinct(column).length - shown.length;
  if (rest > 0) boxes.push(quiet(`and ${count(rest)} rarer ones: filter the table for them`));
  return [el("fieldset", { class: "choices" }, el("legend", { class: "hidden" }, `values of ${column.name}`), boxes)];
}

// The range that is set, or else that of all rows.
function bounds(page, column) {
  const now = page.conditions.find((condition) => condition.key === column.key && !condition.chosen);
  const [low, high] = now ? [now.low, now.high] : finiteExtent(column.values);
  const lost = column.values.some(Number.isNaN);
  const kind = column.kind === "date" ? "date" : "number";
  const as = (value) => (kind === "date" ? (finite(value) ? new Date(value).toISOString().slice(0, 10) : "") : finite(value) ? String(value) : "");
  const field = (name, text, value) => el("label", {}, `${text} `, el("input", { type: kind, step: "any", id: name, value: as(value) }));
  const missing = lost ? [el("label", {}, el("input", { type: "checkbox", id: "bound-missing", checked: Boolean(now?.missing) }), " or missing")] : [];
  return [field("bound-low", "from", low), field("bound-high", "to", high), ...missing, el("button", { type: "submit" }, "Set")];
}

function apply(page) {
  const column = chosenColumn(page);
  if (!column) return;
  if (isBoxed(column)) {
    const ticked = [...document.querySelectorAll("#condition-fields input:checked")].map((box) => box.category);
    page.setCondition(column.key, ticked.length ? { key: column.key, chosen: new Set(ticked) } : null);
    return;
  }
  const day = 24 * 3600 * 1000;
  const read = (id) => (column.kind === "date" ? byId(id).valueAsNumber : Number.parseFloat(byId(id).value));
  const low = read("bound-low"), high = read("bound-high") + (column.kind === "date" ? day - 1 : 0);
  const range = { key: column.key, low: finite(low) ? low : -Infinity, high: finite(high) ? high : Infinity, missing: Boolean(byId("bound-missing")?.checked) };
  page.setCondition(column.key, range);
}

function drawBar(page) {
  const { group, conditions, data } = page;
  const words = conditions.map((condition) => inWords(condition, page.columns));
  const empty = group.rows.length ? "" : " No row satisfies this: remove a condition.";
  const donors = page.donors === "subset" ? " Values are taken from the chosen rows only (subset)." : "";
  const held = data.n < data.n_explained ? `the ${count(data.n)} rows in this file` : `${count(data.n)} rows`;
  const text = group.allRows ? `All ${count(data.n_explained)} rows` : `${count(group.rows.length)} of ${held}: ${listed(words)}.${empty}${donors}`;
  const line = byId("subgroup-words");
  if (line.textContent !== text) line.textContent = text; // said once
  line.title = text; // the line may be cut off
  line.dataset.n = group.rows.length;
  byId("clear").hidden = group.allRows;
  for (const radio of document.querySelectorAll("input[name=donors]")) radio.checked = radio.value === page.donors;
  byId("chips").replaceChildren(...conditions.map((condition, k) => el("li", {}, el("button", {
    type: "button", title: words[k], "aria-label": `remove: ${words[k]}`, onclick: () => page.setCondition(condition.key, null),
  }, el("span", { class: "chip-words" }, words[k]), el("span", { "aria-hidden": "true" }, " ×")))));
  drawPython(page);
}
