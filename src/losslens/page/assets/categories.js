// Charts of categories: a table with a line for each, which has room for names, needs no joining lines between values
// that have no order, and can be read and clicked without a pointer. In plain SVG, as the ranking.

const CATEGORIES_AT_FIRST = 15;
const LINE = 24, LINE_OF_MODEL = 11; // pixels of a category, and of each further model
const LONG_NAME = 24; // characters
const PLOT = 150; // pixels that ticks have: the width of a plot on paper or a phone, the narrowest
const FINE = 1000; // steps of the axis, for marks of single rows

const ORDERS = [
  ["own", "in their own order"], ["change", "largest change of the error first"], ["rows", "most rows first"], ["name", "by name"],
];

// Of values with an order, that one; else the largest PI first, or where there is none the largest PD.
function orderOf(page, feature, entry) {
  const g = feature.labels.length;
  const all = Array.from({ length: g }, (_, v) => v);
  const asked = page.categoryOrder ?? (feature.ordered ? "own" : "change");
  const order = asked === "own" && !feature.ordered ? "change" : asked;
  const by = (of) => all.sort((a, b) => compare(of(b), of(a)));
  const curve = entry.pi ?? page.view.pd.all ?? page.view.pd.mean;
  if (order === "change" && curve) by((v) => curve[v]);
  if (order === "rows") by((v) => feature.weights[v]);
  if (order === "name") all.sort((a, b) => feature.labels[a].localeCompare(feature.labels[b], "en", { numeric: true }));
  return { order, values: all };
}

function categoryButtons(page) {
  page.categoryOrder = null; // that of the feature
  page.everyCategory = null; // the feature whose categories are all shown
  byId("category-order").addEventListener("change", (event) => {
    page.categoryOrder = event.target.value;
    redrawCategories(page);
  });
  for (const side of SIDES) {
    byId(`more-${side}`).addEventListener("click", () => {
      page.everyCategory = page.everyCategory === page.open ? null : page.open;
      redrawCategories(page);
    });
    const host = byId(`lines-${side}`);
    const light = oncePerFrame((event) => {
      const found = event && underPointer(page, side, event);
      page.light(found?.row ?? null);
      tip(page, side, found?.row ?? null, found);
    });
    host.addEventListener("mousemove", light);
    host.addEventListener("mouseleave", () => light(null));
    host.addEventListener("click", (event) => {
      const found = event.target.closest("button") ? null : underPointer(page, side, event);
      if (found) page.pick(found.row);
    });
  }
}

function redrawCategories(page) {
  for (const side of SIDES) page.view[side].range = null;
  page.parts.charts.mark();
}

// The row nearest to the pointer among those drawn at the category there.
function underPointer(page, side, event) {
  const line = event.target.closest?.("tr[data-value]");
  const place = line?.querySelector(".plot")?.getBoundingClientRect();
  if (!place || event.clientX < place.left || event.clientX > place.right) return null;
  const view = page.view[side];
  const [low, high] = view.range;
  const y = low + ((event.clientX - place.left) / place.width) * (high - low);
  const value = Number(line.dataset.value);
  const around = byId(`lines-${side}`).parentElement.getBoundingClientRect();
  return { row: nearestRow(view, value, y, 0.04 * (high - low)), value, sx: event.clientX - around.left, sy: event.clientY - around.top };
}

function drawCategories(page, side) {
  const feature = page.data.features[page.open];
  const view = page.view[side];
  if (!isShown(view)) return;
  const { order, values } = orderOf(page, feature, feature.models[page.model]);
  const every = page.everyCategory === page.open || values.length <= CATEGORIES_AT_FIRST + 1;
  const shown = every ? values : values.slice(0, CATEGORIES_AT_FIRST);
  const ticks = roomyTicks(view.range, PLOT);
  const host = byId(`lines-${side}`);
  const rows = rowsAt(page, feature);
  const name = nameOf(feature.labels);
  const head = el("tr", {},
    el("th", { scope: "col" }, "value"),
    el("td", { class: "plot" }, axisLine(view, ticks)),
    el("th", { scope: "col", class: "number" }, "rows"));
  host.replaceChildren(
    el("caption", { class: "hidden" }, `${capital(view.unit)} at each value of ${feature.name}`),
    el("thead", {}, head),
    el("tbody", {}, shown.map((v) => categoryLine(page, feature, view, side, v, ticks, name(v), rows(v)))));
  const more = byId(`more-${side}`);
  more.hidden = values.length <= CATEGORIES_AT_FIRST + 1;
  more.textContent = every ? `Show the first ${CATEGORIES_AT_FIRST} values` : `Show all ${count(values.length)} values`;
  offerOrders(feature, order);
}

function offerOrders(feature, order) {
  const offered = ORDERS.filter(([key]) => key !== "own" || feature.ordered);
  byId("category-order").replaceChildren(...offered.map(([key, text]) => el("option", { value: key, selected: key === order }, text)));
}

const across = ([low, high], value) => (100 * (value - low)) / (high - low);
const inPercent = (share) => `${share.toFixed(3)}%`;

function axisLine({ range, unit }, ticks) {
  const text = (value) => svg("text", { x: inPercent(across(range, value)), y: 28, "text-anchor": "middle" }, tickText(value));
  return svg("svg", { class: "category axis", height: 32, "aria-hidden": "true" }, svg("text", { x: 0, y: 11 }, shortened(unit, 40)), ticks.map(text));
}

// How many rows hold a value, of all and of the subgroup.
function rowsAt(page, feature) {
  if (feature.own == null) return (v) => `${number(100 * feature.weights[v], 2)}%`;
  const counted = (rows) => { const counts = new Uint32Array(feature.labels.length); for (const i of rows) counts[feature.own[i]]++; return counts; };
  const all = counted(Array.from({ length: page.data.n }, (_, i) => i));
  if (page.group.allRows) return (v) => count(all[v]);
  const some = counted(page.group.rows);
  return (v) => `${count(some[v])} of ${count(all[v])}`;
}

// What most long names begin with in common tells none apart, and is left out: the whole name is the title. In the order
// of the alphabet, what two names share is shared by all between them.
function nameOf(labels) {
  const sorted = [...labels].sort();
  const few = Math.floor(sorted.length / 10);
  const [first, last] = [sorted[few], sorted.at(-1 - few)];
  let same = 0;
  while (same < first.length && first[same] === last[same]) same++;
  const start = first.slice(0, first.lastIndexOf(" ", same - 1) + 1); // whole words
  const long = labels.length > 1 && start.length >= 8 && labels.some((label) => label.length > LONG_NAME);
  return (v) => (long && labels[v].startsWith(start) ? `… ${labels[v].slice(start.length)}` : labels[v]);
}

function categoryLine(page, feature, view, side, v, ticks, text, rows) {
  const label = feature.labels[v];
  const name = canChoose(page, feature)
    ? el("button", { type: "button", class: "name", title: label, "aria-label": label, "aria-pressed": String(isChosen(page, feature, v)), onclick: () => toggle(page, feature, v) }, text)
    : el("span", { title: label }, text);
  return el("tr", { "data-value": v },
    el("th", { scope: "row" }, name),
    el("td", { class: "plot", title: numbersAt(view, v) }, plotOf(view, side, v, ticks)),
    el("td", { class: "number" }, rows));
}

function plotOf(view, side, v, ticks) {
  const { range, mean, all, band, model, others, drawn, faded } = view;
  const there = others.filter(({ curve }) => finite(curve[v]));
  const tall = LINE + LINE_OF_MODEL * others.length;
  const upright = (kind, value) => line(kind, across(range, value), across(range, value), 0, tall);
  const marks = [
    ...ticks.map((value) => upright("grid", value)), view.now === null ? null : upright("zero strong", view.now),
    singles(drawn.map(({ curve }) => curve[v]), range, tall),
    svg("g", { class: "marked" }),
    all && finite(all[v]) ? svg("circle", { class: "everybody", cx: inPercent(across(range, all[v])), cy: LINE / 2, r: 5 }) : null,
    ...(mean && finite(mean[v]) ? withBand(range, mean[v], band, v, LINE / 2, 0, inkOf(side, model), faded?.[v]) : []),
    ...there.flatMap((one) => withBand(range, one.curve[v], one.band, v, LINE + LINE_OF_MODEL * (others.indexOf(one) + 0.3), 1 + others.indexOf(one), inkOf(side, one.m), false)),
  ];
  return svg("svg", { class: "category", height: tall, role: "img", "aria-label": numbersAt(view, v) }, marks);
}

function numbersAt({ mean, band, all, labels }, v) {
  const value = mean?.[v] ?? all?.[v];
  if (!finite(value)) return "no row of the subgroup has this value";
  return `${number(value)}${band && finite(band.low[v]) ? `, 95%: ${number(band.low[v])} to ${number(band.high[v])}` : ""}`;
}

// A thin mark for each single row that the axis covers: one element for all.
function singles(values, range, tall) {
  const places = values.map((value) => across(range, value)).filter((share) => share >= 0 && share <= 100);
  const path = places.map((share) => `M${((FINE * share) / 100).toFixed(1)} 4V${tall - 4}`).join("");
  return svg("svg", { viewBox: `0 0 ${FINE} ${tall}`, preserveAspectRatio: "none", width: "100%", height: tall }, svg("path", { class: "singles", d: path }));
}

// A point and its interval, cut at the ends of the axis. Shapes distinguish models, besides colours.
function withBand(range, value, band, v, height, shape, ink, faded) {
  const cut = (end) => Math.min(100, Math.max(0, across(range, end)));
  const style = `--mark: var(--${ink})`;
  const x = across(range, value);
  const whisker = band && finite(band.low[v]) && finite(band.high[v])
    ? svg("line", { class: "whisker", style, x1: inPercent(cut(band.low[v])), x2: inPercent(cut(band.high[v])), y1: height, y2: height }) : null;
  const of = { class: `mean${faded ? " faded" : ""}`, style };
  const point = shape === 0
    ? svg("circle", { ...of, cx: inPercent(x), cy: height, r: 5 })
    : svg("svg", { x: inPercent(x), y: height, overflow: "visible" }, svg("path", { ...of, d: SHAPES[(shape - 1) % SHAPES.length] }));
  return [whisker, point];
}

const SHAPES = ["M-4-4H4V4H-4Z", "M0-5.5L5.5 0L0 5.5L-5.5 0Z", "M0-5L5 4H-5Z"]; // square, diamond, triangle

// The picked and the hovered row, at each category.
function markCategories(page, side, picked, lit) {
  const { range } = page.view[side];
  for (const line of byId(`lines-${side}`).querySelectorAll("tr[data-value]")) {
    const v = Number(line.dataset.value);
    const mark = (curve, kind) => {
      const share = curve && finite(curve[v]) ? across(range, curve[v]) : NaN;
      if (!(share >= 0 && share <= 100)) return null;
      return svg("line", { class: kind, x1: inPercent(share), x2: inPercent(share), y1: 1, y2: LINE - 1 });
    };
    line.querySelector(".marked").replaceChildren(...[mark(picked, "picked-row"), mark(lit, "lit-row")].filter(Boolean));
  }
}

// A click on a category puts it into the condition on its column, or takes it out.
const canChoose = (page, feature) => feature.own != null && columnOf(page, feature) !== undefined;

function chosenOf(page, feature) {
  const { key } = columnOf(page, feature);
  return new Set(page.conditions.find((condition) => condition.key === key)?.chosen);
}

function valuesAt(page, feature, v) {
  const { values } = columnOf(page, feature);
  const found = new Set();
  for (let i = 0; i < page.data.n; i++) if (feature.own[i] === v) found.add(values[i]);
  return found;
}

function isChosen(page, feature, v) {
  const chosen = chosenOf(page, feature);
  if (!chosen.size) return false;
  const its = [...valuesAt(page, feature, v)];
  return its.length > 0 && its.every((value) => chosen.has(value));
}

function toggle(page, feature, v) {
  const { key } = columnOf(page, feature);
  const chosen = chosenOf(page, feature);
  const out = isChosen(page, feature, v);
  for (const value of valuesAt(page, feature, v)) if (out) chosen.delete(value); else chosen.add(value);
  page.setCondition(key, chosen.size ? { key, chosen } : null);
}
