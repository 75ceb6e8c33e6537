// The ranking: a table of buttons with bars in plain SVG. Not in Bokeh, so that each row can be reached by keyboard, and
// 200 of them can be scrolled and searched.

const SHOWN_AT_FIRST = 20;

function ranking(page) {
  const search = byId("ranking-search");
  const more = byId("ranking-more");
  const body = byId("ranking-body");
  const state = { everything: false, folded: new Set() };
  const entryOf = (f) => page.data.features[f].models[page.model];
  const together = byId("ranking-together");
  const blocks = blocksOf(page.data).map((block, b) => ({ block, b, members: block.features.map((name) => page.data.features.findIndex((feature) => feature.name === name)) }));
  const sumOf = (values) => values.reduce((sum, value) => sum + value, 0);

  // Of the chosen model: the others stand beside it further down.
  function headers() {
    const shares = hasShares(page.data, page.model);
    return [
      { key: "name", label: "Feature", value: (f) => page.data.features[f].name, joint: ({ block }) => block.name }, { key: "bars", label: el("span", {}, capital(page.data.loss.unit), el("span", { class: "method" }, " when replaced (PFI)")) },
      { key: "pfi", label: "when replaced", value: (f) => page.numbers[f][page.model].pfi, joint: ({ b }) => page.joint[b].pfi }, { key: "interval", label: "95% interval" },
      ...(shares ? [{ key: "share", label: "Shapley share", value: (f) => entryOf(f).sfimp, joint: ({ members }) => sumOf(members.map((f) => entryOf(f).sfimp)) }] : []), { key: "p", label: "p", value: (f) => entryOf(f).p, joint: ({ block }) => block.p_zero },
    ];
  }

  search.hidden = byId("ranking-search-label").hidden = page.data.features.length <= SHOWN_AT_FIRST;
  for (const button of document.querySelectorAll("button.leading")) { // the picture of the first screen
    button.addEventListener("click", () => page.openFeature(Number(button.dataset.leading), true));
  }
  search.addEventListener("input", draw);
  byId("ranking-together-label").hidden = !blocks.length;
  together.addEventListener("change", draw);
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
    const sorted = (units) => units.sort((a, b) => compare(a.value, b.value) * (upward ? 1 : -1) || a.f - b.f);
    const ofOne = (f) => ({ f, value: order.value(f) });
    const joined = together.checked && page.model === 0 ? blocks : [];
    const inside = new Set(joined.flatMap(({ members }) => members));
    const units = joined.map((one) => ({ ...one, f: Math.min(...one.members), value: order.joint(one), shown: sorted(one.members.filter((f) => found.includes(f)).map(ofOne)) }));
    return sorted([...units.filter(({ shown }) => shown.length), ...found.filter((f) => !inside.has(f)).map(ofOne)]);
  }

  // A block is a row that opens and closes those of its features.
  function blockRow({ block, b, members, shown }, scale) {
    const open = !state.folded.has(b), { pfi, ends } = page.joint[b], base = page.errors[0];
    const toggle = () => { if (open) state.folded.add(b); else state.folded.delete(b); draw(); body.querySelector(`[data-block="${b}"]`).focus(); };
    const name = el("button", { type: "button", class: "feature block", "aria-expanded": String(open), "data-block": b, title: block.features.join(", "), onclick: toggle },
      `${open ? "▾" : "▸"} `, breakable(block.name));
    const share = sumOf(members.map((f) => entryOf(f).share));
    const cells = [el("th", { scope: "row" }, name, described({ description: block.words })), el("td", { class: "bars" }, bars(page, { ...block, p: block.p_zero }, pfi, ends, scale, block.name)),
      el("td", { class: "number" }, finite(pfi) ? told(page, `joint-${b}`, pfi, `PFI of ${block.name}`, { base, ...ends }) : "–"),
      el("td", { class: "number" }, page.told[0].between(ends, base) || "–"),
      ...(hasShares(page.data, 0) ? [el("td", { class: "number" }, finite(share) ? percent(share) : "–")] : []), el("td", { class: "number" }, finite(block.p_zero) ? chance(block.p_zero) : "–")];
    return [el("tr", { class: "block" }, cells), ...(open ? shown.map(({ f }) => row(page, f, scale, "inside")) : [])];
  }

  function draw() {
    byId("ranking-head").replaceChildren(...headers().map((header) => headerCell(header, page.sorts.ranking, sortBy)));
    const all = inOrder();
    const shown = state.everything || search.value ? all : all.slice(0, SHOWN_AT_FIRST);
    const scale = scaleOf(page, shown);
    body.replaceChildren(...shown.flatMap((unit) => (unit.block ? blockRow(unit, scale) : [row(page, unit.f, scale)])));
    more.hidden = all.length <= SHOWN_AT_FIRST || Boolean(search.value);
    more.textContent = state.everything ? `Show the first ${SHOWN_AT_FIRST}` : `Show all ${page.data.features.length} features`;
    const notes = page.group.allRows ? [] : ["Blue: the chosen rows; grey, shares and p: all rows."];
    if (blocks.length && together.checked && page.model !== 0) notes.push(`Features are replaced together for ${page.data.models[0].name} only.`);
    if (all.some(({ block }) => block) && !page.group.allRows) notes.push(`Replaced together: ${page.donors === "given" ? (blocks[0].block.exact ? "exact for the chosen rows, without an interval" : "sampled donors, without an interval") : "not with donors of the chosen rows"}, since this file does not hold these cells; what is said of their case is about all rows.`);
    byId("ranking-note").textContent = notes.join(" ");
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
  const single = (f) => [page.numbers[f][model], data.features[f].models[model].pfi];
  const numbers = shown.flatMap(({ block, b, f, shown: inside }) => (block ? [[page.joint[b], block.pfi], ...inside.map((one) => single(one.f))] : [single(f)]));
  const values = numbers.flatMap(([{ pfi, ends }, all]) => [...[0, pfi, ends.low, ends.high].map((change) => errors[model] + change), data.models[model].error + all].map(teller.of));
  const [low, high] = extent(values.filter(finite));
  return (value) => 2 + (96 * (value - low)) / (high - low || 1);
}

function row(page, f, scale, kind = "") {
  const feature = page.data.features[f];
  const open = f === page.open;
  const name = el("button", {
    type: "button", class: "feature", "aria-pressed": String(open), "data-feature": f, title: feature.name,
    onclick: () => page.openFeature(f, true),
  }, breakable(feature.name), described(feature));
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
  return el("tr", { class: [kind, open ? "open" : ""].filter(Boolean).join(" ") || null, onclick: click }, cells);
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
