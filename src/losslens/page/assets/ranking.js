// The ranking: a table of buttons with bars in plain SVG. Not in Bokeh, so that each row can be reached by keyboard, and
// 200 of them can be scrolled and searched.

const SHOWN_AT_FIRST = 20;

function ranking(page) {
  const models = page.data.models;
  const search = byId("ranking-search");
  const more = byId("ranking-more");
  const body = byId("ranking-body");
  const state = { everything: false };
  const headers = [{ key: "name", label: "Feature", value: (f) => page.data.features[f].name }];
  models.forEach((model, m) => {
    const of = models.length > 1 ? ` ${model.name}` : "";
    headers.push({ key: `bars${m}`, label: marks(hasShares(page.data, m), of) });
    headers.push({ key: `pfi${m}`, label: `PFI${of}`, value: (f) => page.numbers[f][m].pfi });
    if (hasShares(page.data, m)) {
      headers.push({ key: `sfimp${m}`, label: `SFIMP${of}`, value: (f) => page.data.features[f].models[m].sfimp });
    }
    headers.push({ key: `p${m}`, label: `p${of}`, value: (f) => page.data.features[f].models[m].p });
  });
  search.hidden = byId("ranking-search-label").hidden = page.data.features.length <= SHOWN_AT_FIRST;
  for (const button of document.querySelectorAll("button.leading")) { // the picture of the first screen
    button.addEventListener("click", () => page.openFeature(Number(button.dataset.leading), true));
  }
  search.addEventListener("input", draw);
  more.addEventListener("click", () => { state.everything = !state.everything; draw(); });

  function sortBy({ key }) {
    const { ranking } = page.sorts;
    page.sortBy("ranking", key, ranking?.key === key ? !ranking.upward : key === "name");
  }

  function inOrder() {
    const all = page.data.features.map((_, f) => f);
    const wanted = search.value.trim().toLowerCase();
    const found = wanted ? all.filter((f) => page.data.features[f].name.toLowerCase().includes(wanted)) : all;
    const { key, upward } = page.sorts.ranking ?? {};
    const order = headers.find((header) => header.key === key && header.value);
    if (!order) return found;
    return found.sort((a, b) => compare(order.value(a), order.value(b)) * (upward ? 1 : -1));
  }

  function draw() {
    byId("ranking-head").replaceChildren(...headers.map((header) => headerCell(header, page.sorts.ranking, sortBy)));
    const all = inOrder();
    const shown = state.everything || search.value ? all : all.slice(0, SHOWN_AT_FIRST);
    const scale = scaleOf(page, shown);
    body.replaceChildren(...shown.map((f) => row(page, f, scale)));
    more.hidden = all.length <= SHOWN_AT_FIRST || Boolean(search.value);
    more.textContent = state.everything ? `Show the first ${SHOWN_AT_FIRST}` : `Show all ${all.length} features`;
    byId("ranking-note").textContent = page.group.allRows
      ? "" : "Filled dots and their intervals: the subgroup. Hollow dots, SFIMP and p: all rows.";
  }

  return { draw };
}

function marks(shares, of) {
  const dot = ["PFI ", el("span", { class: "pfi-ink" }, "●")];
  return shares ? [...dot, " SFIMP ", el("span", { class: "sfimp-ink" }, "◆"), of] : [...dot, of];
}

const hasShares = (data, m) => data.features.some((feature) => finite(feature.models[m].sfimp));

function compare(a, b) {
  if (typeof a === "string" && typeof b === "string") return a.localeCompare(b);
  if (!finite(a) || !finite(b)) return Number(finite(a)) - Number(finite(b));
  return a - b;
}

function headerCell(header, order, sortBy) {
  const sorted = order?.key === header.key ? (order.upward ? "ascending" : "descending") : "none";
  const numeric = header.value && header.key !== "name" ? "number" : header.value ? null : "bars";
  if (!header.value) return el("th", { scope: "col", class: numeric }, header.label);
  const button = el("button", { type: "button", "data-key": header.key, onclick: () => sortBy(header) }, header.label);
  return el("th", { scope: "col", "aria-sort": sorted, class: numeric }, button);
}

// One scale for all models, so that lengths can be compared; zero is always on it.
function scaleOf(page, shown) {
  let low = 0, high = 0;
  for (const f of shown) {
    page.data.features[f].models.forEach((entry, m) => {
      const { pfi, ends } = page.numbers[f][m];
      for (const value of [ends.low, ends.high, pfi, entry.pfi, entry.sfimp, entry.sfimp_low, entry.sfimp_high]) {
        if (finite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
      }
    });
  }
  const span = high - low || 1;
  return (value) => 2 + (96 * (value - low)) / span;
}

function row(page, f, scale) {
  const feature = page.data.features[f];
  const open = f === page.open;
  const name = el("button", {
    type: "button", class: "feature", "aria-pressed": String(open), "data-feature": f, title: feature.name,
    onclick: () => page.openFeature(f, true),
  }, feature.name);
  const cells = [el("th", { scope: "row" }, el("span", { class: "with-mark" }, name, farMark(feature), cautionMark(page.numbers[f])))];
  feature.models.forEach((entry, m) => {
    const { pfi, error, about: sampled, ends } = page.numbers[f][m];
    cells.push(el("td", { class: "bars" }, bars(page, entry, pfi, ends, scale, feature.name)));
    const about = error === null || error === undefined ? null : plusMinus(error);
    cells.push(el("td", { class: "number" }, sampled ? el("small", {}, "about ") : null, output(`pfi-${f}-${m}`, pfi, `PFI of ${feature.name}`), about));
    if (hasShares(page.data, m)) cells.push(el("td", { class: "number" }, output(`sfimp-${f}-${m}`, entry.sfimp), finite(entry.share) ? el("small", { class: "error" }, ` ${percent(entry.share)}`) : null));
    cells.push(el("td", { class: "number" }, finite(entry.p) ? chance(entry.p) : "–"));
  });
  const click = (event) => { if (!event.target.closest("button")) page.openFeature(f, true); };
  return el("tr", { class: open ? "open" : null, onclick: click }, cells);
}

function farMark(feature) {
  const far = farOf(feature);
  return far && el("span", { class: "far", role: "img", "aria-label": far.sentence, title: far.sentence }, `◌ ${far.percent ?? ""}`);
}

// Of any model of the page: its interval is not to be trusted.
function cautionMark(numbers) {
  const caution = numbers.map(({ ends }) => ends.caution).find(Boolean);
  return caution && el("span", { class: "far", role: "img", "aria-label": caution, title: caution }, "△");
}

const plusMinus = (error) => el("small", { class: "error" }, ` ± ${number(error, 2)}`);

function bars(page, entry, pfi, ends, scale, name) {
  const parts = [line("zero", scale(0), scale(0), 0, 34)];
  if (finite(entry.sfimp)) {
    parts.push(line("sfimp bar", scale(0), scale(entry.sfimp), 24, 24));
    if (finite(entry.sfimp_low)) parts.push(line("sfimp", scale(entry.sfimp_low), scale(entry.sfimp_high), 24, 24));
    const diamond = svg("path", { d: "M-5 0L0 -5L5 0L0 5Z", class: "sfimp mark" });
    parts.push(svg("svg", { x: `${scale(entry.sfimp)}%`, y: 24, overflow: "visible" }, diamond));
  }
  if (finite(pfi)) parts.push(line("pfi bar", scale(0), scale(pfi), 10, 10));
  if (finite(ends.low)) parts.push(line("pfi", scale(ends.low), scale(ends.high), 10, 10));
  if (!page.group.allRows) {
    parts.push(svg("circle", { class: "pfi hollow", cx: `${scale(entry.pfi)}%`, cy: 10, r: 4 }));
  }
  if (finite(pfi)) parts.push(svg("circle", { class: "pfi mark", cx: `${scale(pfi)}%`, cy: 10, r: 5 }));
  return svg("svg", { class: "bars", role: "img", "aria-label": said(entry, pfi, ends, name), height: 34 }, parts);
}

const line = (kind, x1, x2, y1, y2) => svg("line", { class: kind, x1: `${x1}%`, x2: `${x2}%`, y1, y2 });

function said(entry, pfi, ends, name) {
  const between = finite(ends.low) ? `, interval ${number(ends.low)} to ${number(ends.high)}` : "";
  const share = finite(entry.sfimp) ? `; SFIMP ${number(entry.sfimp)}` : "";
  return `${name}: PFI ${number(pfi)}${between}${share}`;
}
