// The bar of the subgroup: its description, an editor of conditions, and the choice of its donors.

const MOST_CHOICES = 60; // categories offered of a column: the most frequent ones

function subgroupBar(page) {
  const choose = byId("condition-column");
  page.columns.forEach((column) => choose.append(el("option", { value: column.key }, column.name)));
  const first = page.columns.find((column) => column.own && column.name === page.data.by) ?? page.columns.find((column) => column.own) ?? page.columns[0];
  choose.value = first.key;
  byId("add").open = page.data.by != null; // `by` was given: show its groups
  choose.addEventListener("change", () => editor(page));
  byId("clear").addEventListener("click", () => page.clear());
  byId("condition-form").addEventListener("submit", (event) => { event.preventDefault(); apply(page); });
  for (const radio of document.querySelectorAll("input[name=donors]")) {
    radio.addEventListener("change", () => page.setDonors(radio.value));
  }
  editor(page);
}

const chosenColumn = (page) => page.columns.find((column) => column.key === byId("condition-column").value);

function editor(page) {
  const column = chosenColumn(page);
  const fields = column.kind === "words" ? choices(page, column) : bounds(page, column);
  byId("condition-fields").replaceChildren(...fields);
}

function choices(page, column) {
  const now = page.conditions.find((condition) => condition.key === column.key)?.chosen;
  const offered = distinct(column).slice(0, MOST_CHOICES);
  const boxes = offered.map(([value, times]) => {
    const box = el("input", { type: "checkbox", value: word(value), checked: Boolean(now?.has(value)), onchange: () => apply(page) });
    box.category = value; // not its position, which differs between models
    return el("label", { class: "choice" }, box, word(value), quiet(` ${count(times)}`));
  });
  const rest = distinct(column).length - offered.length;
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
  if (column.kind === "words") {
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
  byId("subgroup-words").textContent = group.allRows
    ? `All ${count(data.n_explained)} rows. Drag over a chart, tick a category or choose rows to form a subgroup.`
    : `${count(group.rows.length)} of ${data.n < data.n_explained ? "the " : ""}${count(data.n)} rows${data.n < data.n_explained ? " in this file" : ""}: ${listed(words)}.${empty}`;
  byId("subgroup-words").dataset.n = group.rows.length;
  byId("clear").disabled = group.allRows;
  byId("chips").replaceChildren(...conditions.map((condition, k) => el("li", {}, el("button", {
    type: "button", "aria-label": `remove: ${words[k]}`, onclick: () => page.setCondition(condition.key, null),
  }, words[k], el("span", { "aria-hidden": "true" }, " ×")))));
}
