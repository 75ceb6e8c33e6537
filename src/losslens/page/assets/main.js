// The page: the open feature, the subgroup, and what is drawn again when they change.

function newPage(data) {
  const page = {
    data, open: 0, model: 0, conditions: [], donors: "given", shownClass: data.target.shown, picked: null, lit: null,
    sorts: { ranking: null, table: null }, // by which column, and upwards or not
    told: data.models.map(({ error }) => tellerOf(data, error)),
    weight: data.table.weight, columns: columnsOf(data, 0), parts: null,
    rowName: (i) => String(data.table.index[i]),
    openFeature(f, go) {
      page.open = f;
      page.redraw();
      if (go) show(byId("feature-name"));
    },
    setModel(m) {
      page.model = m;
      page.columns = columnsOf(data, m);
      page.parts.table.forget(); // predictions and losses have changed
      page.redraw();
      editor(page);
    },
    setClass(k) { page.shownClass = k; page.redraw(); },
    setDonors(donors) { page.donors = donors; page.redraw(); },
    setCondition(key, condition) {
      page.conditions = page.conditions.filter((other) => other.key !== key);
      if (condition) page.conditions.push(condition);
      page.redraw();
      if (document.activeElement?.type !== "checkbox") editor(page); // it shows what is set
    },
    setConditions(conditions) { page.conditions = conditions; page.redraw(); editor(page); },
    clear() { page.setConditions([]); },
    sortBy(which, key, upward) {
      page.sorts[which] = { key, upward };
      page.parts[which].draw();
      remember(page);
    },
    restore(state) {
      if (state.model !== page.model) { page.columns = columnsOf(data, state.model); page.parts.table.forget(); }
      Object.assign(page, state);
      for (const radio of document.querySelectorAll("input[name=model]")) radio.checked = Number(radio.value) === page.model;
      byId("class-choice").value = page.shownClass;
      const last = page.conditions.findLast((condition) => !condition.rows);
      if (last) byId("condition-column").value = last.key;
      page.redraw();
      editor(page);
    },
    brush: (x0, x1) => brush(page, x0, x1),
    light(i) {
      if (i === page.lit) return;
      page.lit = i;
      page.parts.charts.mark();
      drawCard(page);
    },
    pick(i, go) {
      page.picked = i;
      page.lit = null;
      page.parts.charts.mark();
      drawLegend(page);
      byId("picked-words").textContent = i === null ? "" : `Row ${page.rowName(i)} is shown.`;
      drawCard(page);
      page.parts.table.draw();
      if (go) show(byId("feature-name"));
    },
    redraw: () => redraw(page),
  };
  return page;
}

function show(heading) {
  byId("add").open = false; // what is opened isn't behind it
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  heading.scrollIntoView({ behavior: still ? "auto" : "smooth", block: "start" });
  heading.focus({ preventScroll: true });
}

function regroup(page) {
  const allRows = page.conditions.length === 0;
  const rows = rowsThat(page.conditions, page.columns, page.data.n);
  page.group = { allRows, rows, donors: page.donors, sampled: page.data.n < page.data.n_explained };
  page.member = new Uint8Array(page.data.n);
  for (const i of rows) page.member[i] = 1;
  page.errors = page.data.models.map(({ error }, m) => (allRows ? error : rows.length ? meanOf(page.data.table.models[m].loss, rows, page.weight) : NaN));
  page.numbers = page.data.features.map((feature) =>
    feature.models.map((entry) => pfiOf(feature, entry, page.group, page.weight)));
  page.joint = blocksOf(page.data).map((block) => jointOf(block, page.group, page.weight));
}

function redraw(page) {
  regroup(page);
  page.view = viewsOf(page);
  drawBar(page);
  page.parts.ranking.draw();
  drawGlance(page);
  drawFeature(page);
  drawSubgroupError(page);
  drawQuality(page);
  drawForWhom(page);
  drawCompared(page);
  drawRowFindings(page);
  page.parts.charts.draw();
  drawCard(page);
  page.parts.table.draw();
  offerCsv(page);
  offerReceipts(page);
  if (document.documentElement.dataset.ready) remember(page);
}

// A range dragged over the open feature is a condition on its values, with rounded ends.
function brush(page, x0, x1) {
  const feature = page.data.features[page.open];
  const column = columnOf(page, feature);
  const { axis } = page.view.pi;
  if (!column) return;
  const [low, high] = finiteExtent(column.values);
  const step = feature.kind === "integer" ? 1 : feature.kind === "date" ? 1 : 10 ** Math.floor(Math.log10((high - low || 1) / 500));
  const ends = feature.kind === "integer" ? [Math.ceil(x0), Math.floor(x1)] : [tidy(x0, step), tidy(x1, step)];
  const missing = axis.missing !== null && x0 <= axis.missing && x1 >= axis.missing;
  page.setCondition(column.key, { key: column.key, low: Math.max(ends[0], low), high: Math.min(ends[1], high), missing });
}

// Rounded to a step that is a power of ten, without 0.30000000000000004.
const tidy = (value, step) => Number((Math.round(value / step) * step).toPrecision(12));

const PRINTED = 330; // width of a chart on paper, in CSS pixels: half of A4 without its margins

function themes(page) {
  const root = document.documentElement;
  const button = byId("theme");
  const set = (theme) => {
    root.dataset.theme = theme;
    button.setAttribute("aria-pressed", String(theme === "dark"));
    page.parts.charts.paint();
  };
  button.addEventListener("click", () => {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    try { sessionStorage.setItem("losslens-theme", theme); } catch { /* a sandboxed frame: not remembered */ }
    set(theme);
  });
  // Prints are light. Charts are painted a frame later, for which a printer doesn't wait: the style sheet inverts
  // dark ones.
  addEventListener("beforeprint", () => {
    root.dataset.charts = root.dataset.theme;
    root.dataset.theme = "light";
    root.style.setProperty("--print-zoom", PRINTED / (byId("chart-pi").clientWidth || PRINTED)); // two side by side
  });
  addEventListener("afterprint", () => { root.dataset.theme = root.dataset.charts; });
  byId("link").addEventListener("click", copyLink);
  byId("link").hidden = window.parent !== window; // a notebook's frame has no address
  byId("print").addEventListener("click", () => print());
  set(root.dataset.theme);
}

function chooseModel(page) {
  const { models } = page.data;
  byId("model-choice").hidden = models.length < 2;
  models.forEach((model, m) => {
    const radio = el("input", { type: "radio", name: "model", value: m, checked: m === 0, onchange: () => page.setModel(m) });
    byId("model-choice").append(el("label", {}, radio, ` ${model.name}`));
  });
}

async function start() {
  const page = newPage(await unpack());
  page.parts = { ranking: ranking(page), table: observations(page), charts: await makeCharts(page) };
  subgroupBar(page);
  chooseModel(page);
  chooseClass(page);
  forWhom(page);
  weakSegments(page);
  compared(page);
  chartButtons(page);
  categoryButtons(page);
  pairs(page);
  rowFindings(page);
  byId("curve-numbers").addEventListener("toggle", () => drawNumbers(page));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") page.pick(null); });
  storyButton(page);
  keepFocus();
  followAddress(page);
  const state = readState(page, addressed(page));
  if (state) page.restore(state); else page.redraw();
  page.address = stateText(page);
  themes(page);
  await page.parts.charts.show();
  skipCharts();
  const [arrival] = performance.getEntriesByType("navigation");
  if (state?.open && arrival?.type === "navigate") show(byId("feature-name")); // a shared address opens where it was copied
  document.documentElement.dataset.ready = Math.round(performance.now());
}

start().catch((error) => {
  byId("trouble").hidden = false;
  byId("trouble-text").textContent = String(error);
  throw error;
});
