// The ranking: a table of buttons with bars in plain SVG. Not in Bokeh, so that each row can be reached by keyboard, and
// 200 of them can be scrolled and searched.

const SHOWN_AT_FIRST = 20;

function ranking(page) {
  const search = byId("ranking-search");
  const more = byId("ranking-more");
  const body = byId("ranking-body");
  const state = { everything: false };
  const entryOf = (f) => page.data.features[f].models[page.model];

  // Of the chosen model: the others stand beside it further down.
  function headers() {
    const shares = hasShares(page.data, page.model);
    return [
      { key: "name", label: "Feature", value: (f) => page.data.features[f].name }, { key: "bars", label: el("span", {}, capital(page.data.loss.unit), el("span", { class: "method" }, " when replaced (PFI)")) },
      { key: "pfi", label: "when replaced", value: (f) => page.numbers[f][page.model].pfi }, { key: "interval", label: "95% interval" },
      ...(shares ? [{ key: "share", label: "Shapley share", value: (f) => entryOf(f).sfimp }] : []), { key: "p", label: "p", value: (f) => entryOf(f).p },
    ];
  }

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
    const by = headers();
    const order = by.find((header) => header.key === key && header.value) ?? by.find((header) => header.key === "pfi"); // anew for a subgroup
    return found.sort((a, b) => compare(order.value(a), order.value(b)) * (upward ? 1 : -1) || a - b);
  }

  function draw() {
    byId("ranking-head").replaceChildren(...headers().map((header) => headerCell(header, page.sorts.ranking, sortBy)));
    const all = inOrder();
    const shown = state.everything || search.value ? all : all.slice(0, SHOWN_AT_FIRST);
    const scale = scaleOf(page, shown);
    body.replaceChildren(...shown.map((f) => row(page, f, scale)));
    more.hidden = all.length <= SHOWN_AT_FIRST || Boolean(search.value);
    more.textContent = state.everything ? `Show the first ${SHOWN_AT_FIRST}` : `Show all ${all.length} features`;
    byId("ranking-note").textContent = page.group.allRows ? "" : "Blue: the chosen rows; grey, shares and p: all rows.";
  }

  return { draw };
}

const hasShares = (data, m) => data.features.some((feature) => finite(feature.models[m].sfimp));

function compare(a, b) {
  if (typeof a === "string" && typeof b === "string") return a.localeCompare(b);
  if (!finite(a) || !finite(b)) return Number(finite(a)) - Number(finite(b));
  return a - b;
}

function headerCell(header, order, sortBy) {
  const sorted = order?.key === header.key ? (order.upward ? "ascending" : "descending") : "none";
  const numeric = header.key === "bars" ? "bars" : header.key === "name" ? null : "number";
  if (!header.value) return el("th", { scope: "col", class: numeric }, header.label);
  const button = el("button", { type: "button", "data-key": header.key, onclick: () => sortBy(header) }, header.label);
  return el("th", { scope: "col", "aria-sort": sorted, class: numeric }, button);
}

// One scale for all features, with the error as it is on it.
function scaleOf(page, shown) {
  const { model, errors, data } = page;
  const teller = page.told[model];
  const values = shown.flatMap((f) => {
    const { pfi, ends } = page.numbers[f][model];
    const entry = data.features[f].models[model];
    return [...[0, pfi, ends.low, ends.high].map((change) => errors[model] + change), data.models[model].error + entry.pfi].map(teller.of);
  });
  const [low, high] = extent(values.filter(finite));
  return (value) => 2 + (96 * (value - low)) / (high - low || 1);
}

function row(page, f, scale) {
  const feature = page.data.features[f];
  const open = f === page.open;
  const name = el("button", {
    type: "button", class: "feature", "aria-pressed": String(open), "data-feature": f, title: feature.name,
    onclick: () => page.openFeature(f, true),
  }, feature.name, described(feature));
  const cells = [el("th", { scope: "row" }, el("span", { class: "with-mark" }, name, farMark(feature), cautionMark(page.numbers[f])))];
  const m = page.model, entry = feature.models[m], base = page.errors[m];
  const { pfi, error, about: sampled, ends } = page.numbers[f][m];
  cells.push(
    el("td", { class: "bars" }, bars(page, entry, pfi, ends, scale, feature.name)),
    el("td", { class: "number" }, sampled ? el("small", {}, "about ") : null, told(page, `pfi-${f}-${m}`, pfi, `PFI of ${feature.name}`, { base, ...ends }), finite(error) ? plusMinus(page, base + pfi, error) : null),
    el("td", { class: "number" }, page.told[m].between(ends, base) || "–"));
  if (hasShares(page.data, m)) {
    const share = output(`sfimp-${f}-${m}`, entry.sfimp, `SFIMP of ${feature.name}: ${number(entry.sfimp)} (${page.data.loss.title})`);
    if (finite(entry.share)) share.textContent = percent(entry.share);
    cells.push(el("td", { class: "number" }, share));
  }
  cells.push(el("td", { class: "number" }, finite(entry.p) ? chance(entry.p) : "–"));
  const click = (event) => { if (!event.target.closest("button")) page.openFeature(f, true); };
  return el("tr", { class: open ? "open" : null, onclick: click }, cells);
}

// What a feature is, in a few words, where they are known.
const described = ({ description }) => (description ? el("span", { class: "described" }, ` ${description}`) : null);

function farMark(feature) {
  const far = farOf(feature);
  return far && el("span", { class: "far", role: "img", "aria-label": far.sentence, title: far.sentence }, `◌ ${far.percent ?? ""}`);
}

// Of any model of the page: its interval is not to be trusted.
function cautionMark(numbers) {
  const caution = numbers.map(({ ends }) => ends.caution).find(Boolean);
  return caution && el("span", { class: "far", role: "img", "aria-label": caution, title: caution }, "△");
}

// The error of a number, at its place on the reader's scale.
function plusMinus(page, loss, error) {
  const { of, text } = page.told[page.model];
  const wide = Math.abs(of(loss + error) - of(loss - error)) / 2;
  return el("small", { class: "error" }, ` ± ${text(wide, [-wide, wide])}`);
}

function bars(page, entry, pfi, ends, scale, name) {
  const { of, text, between } = page.told[page.model];
  const base = page.errors[page.model], all = page.data.models[page.model].error;
  const at = (change) => scale(of(base + change));
  const parts = [line("zero strong", at(0), at(0), 0, 22)];
  if (finite(pfi)) parts.push(line("pfi bar", at(0), at(pfi), 11, 11));
  if (finite(ends.low)) parts.push(line("pfi", at(ends.low), at(ends.high), 11, 11));
  if (!page.group.allRows) parts.push(svg("circle", { class: "everybody", cx: `${scale(of(all + entry.pfi))}%`, cy: 11, r: 4 }));
  if (finite(pfi)) parts.push(svg("circle", { class: isSure(page.group.allRows ? entry : ends) ? "pfi mark" : "pfi hollow", cx: `${at(pfi)}%`, cy: 11, r: 5 }));
  const label = `${name}: ${text(of(base + pfi))}${finite(ends.low) ? `, interval ${between(ends, base)}` : ""}, as it is ${text(of(base))}`;
  return svg("svg", { class: "bars", role: "img", "aria-label": label, height: 22 }, parts);
}

const line = (kind, x1, x2, y1, y2) => (!finite(x1) || !finite(x2) ? null : svg("line", { class: kind, x1: `${x1}%`, x2: `${x2}%`, y1, y2 }));
