// The open feature: its numbers, what its charts show, the card of a row, and the rows with the largest importances.

const MOST_CURVES = 200;
const INFLUENTIAL = 5;
const BINS = 30;
const LONGEST = 128; // rows of the table of numbers

// The table's column of a feature; a feature may have another name than its column, and a group of columns has none.
function columnOf(page, feature) {
  const name = feature.column === undefined ? feature.name : feature.column;
  return name === null ? undefined : page.columns.find((column) => column.own && column.name === name);
}

// What both charts show. Curves and mean are those of the subgroup; the mean of all rows is a dashed line.
function viewsOf(page) {
  const feature = page.data.features[page.open];
  const entry = feature.models[page.model];
  const { group, model, shownClass, data: { target } } = page;
  const axis = axisOf(feature);
  const bars = axis.words ? null : barsOf(page, feature, axis);
  const shared = { axis, bars, model, title: shortened(feature.name, 60), faded: farOf(feature)?.faded };
  const rows = entry.cells || entry.ice ? thinned(group.rows, entry.local, MOST_CURVES) : [];
  const drawn = (curveOf) => rows.map((row) => ({ row, curve: curveOf(row) })).filter(({ curve }) => curve);
  const base = page.errors[model], teller = page.told[model], { loss: losses } = page.data.table.models[model];
  const ici = (i) => teller.curve(curveOfRow(entry, i), losses[i]); // a row's own error there
  const pi = piOf(feature, entry, group, page.weight);
  const piOfModel = (other, m) => {
    const { error } = page.data.models[m];
    const ends = [other.pi_low, other.pi_high].map((end) => page.told[m].curve(end, error));
    const [low, high] = page.told[m].falls ? ends.reverse() : ends;
    return { pd: page.told[m].curve(other.pi, error), low, high };
  };
  const effect = effectOf(entry, target, shownClass);
  const ice = (i) => effect.turn(iceOfRow(entry, i));
  const onlyMean = target.classes?.length > 2 && shownClass !== target.shown && Boolean(effect.pd); // see effectOf
  return {
    pi: {
      ...shared, now: finite(base) ? teller.of(base) : null, unit: page.data.loss.unit, probability: ["typical", "wrong"].includes(page.data.loss.told_as),
      ...meansOf(page, piOfModel), mean: teller.curve(pi, base), changes: pi, drawn: drawn(ici), curveOf: ici, onlyMean: false,
    },
    pd: {
      ...shared, now: null, unit: outcomeName(target, shownClass), probability: target.reads === "probabilities", ...meansOf(page, (other) => effectOf(other, target, shownClass)),
      mean: pdOf(entry, effect, group, page.weight), drawn: drawn(ice), curveOf: ice, onlyMean,
    },
  };
}

// The means of all rows with their bands: of the chosen model in a subgroup, and of the other ones where they are at
// the same values.
function meansOf(page, curvesOf) {
  const feature = page.data.features[page.open];
  const own = curvesOf(feature.models[page.model], page.model);
  const band = ({ low, high }) => (low && high ? { low, high } : null);
  const others = feature.models.map((other, m) => ({ m, curve: curvesOf(other, m).pd, band: band(curvesOf(other, m)) }));
  const fits = ({ m, curve }) => m !== page.model && curve && curve.length === feature.labels?.length;
  return { all: page.group.allRows ? null : own.pd, band: page.group.allRows ? band(own) : null, others: others.filter(fits) };
}

// What the curves of predictions are of: for a classifier a class.
const outcomeName = (target, k) => (target.classes ? predictionName(target, k) : `prediction of ${target.name}`);

// How many rows hold which value, in bins.
function barsOf(page, feature, axis) {
  const column = columnOf(page, feature);
  const edges = edgesOf(feature, axis, column);
  const values = column ? column.values : feature.own != null ? Array.from(feature.own, (v) => axis.x[v]) : null;
  const all = new Float64Array(edges.length), group = new Float64Array(edges.length);
  if (values) {
    const place = placeOn(edges, axis, values);
    for (let i = 0; i < page.data.n; i++) all[place(i)]++;
    for (const i of page.group.rows) group[place(i)]++;
  } else if (feature.weights) { // a page without rows
    const at = placeOn(edges, axis, axis.x);
    feature.weights.forEach((share, v) => { all[at(v)] += share * page.data.n_explained; });
    group.set(all); // there are no subgroups
  }
  const left = edges.map((edge) => edge[0]), right = edges.map((edge) => edge[1]);
  return { all: { left, right, top: Array.from(all) }, group: { left, right, top: Array.from(group) } };
}

function edgesOf(feature, axis, column) {
  const there = axis.x.filter((x) => x !== axis.missing);
  let [low, high] = finiteExtent(column ? column.values : there);
  const units = feature.kind === "integer" && high - low <= 2 * BINS;
  if (units) [low, high] = [low - 0.5, high + 0.5];
  const bins = units ? Math.round(high - low) : BINS;
  const width = (high - low || 1) / bins;
  const start = high > low ? low : low - 0.5;
  const edges = Array.from({ length: bins }, (_, b) => [start + b * width, start + (b + 1) * width]);
  if (axis.missing !== null) edges.push([axis.missing - width / 2, axis.missing + width / 2]);
  return edges;
}

function placeOn(edges, axis, values) {
  const bins = axis.missing === null ? edges.length : edges.length - 1;
  const start = edges[0][0], width = edges[0][1] - edges[0][0];
  return (i) => {
    const value = values[i];
    if (Number.isNaN(value) || value === axis.missing) return edges.length - 1;
    return Math.min(bins - 1, Math.max(0, Math.floor((value - start) / width)));
  };
}

function drawFeature(page) {
  const feature = page.data.features[page.open];
  const entry = feature.models[page.model];
  byId("feature-name").replaceChildren(feature.name, described(feature) ?? "");
  byId("feature-numbers").replaceChildren(...tiles(page, feature, entry));
  byId("feature-how").textContent = howComputed(page, feature, entry);
  for (const side of SIDES) {
    byId(`note-${side}`).textContent = note(page, side, entry);
    byId(`note-${side}`).dataset.error = (side === "pi" ? curveErrorOf : pdErrorOf)(entry, page.group.rows.length) ?? "";
    byId(`chart-${side}`).setAttribute("aria-label", alternative(page, side, feature));
  }
  const curves = SIDES.some((side) => isShown(page.view[side]));
  byId("category-line").hidden = !curves || !page.view.pi.axis.words;
  byId("category-hint").hidden = !canChoose(page, feature);
  drawClass(page);
  byId("no-curves").hidden = curves;
  byId("no-curves").textContent = curves ? "" : whyNoCurves(page, feature);
  byId("curve-numbers").hidden = !curves;
  drawLegend(page);
  drawFindings(page);
  influential(page, entry);
  if (byId("curve-numbers").open) drawNumbers(page);
}

function drawClass(page) {
  const { target } = page.data;
  byId("title-pd").textContent = `${capital(page.view.pd.unit)} when a row gets this value`;
  byId("class-note").hidden = !page.view.pd.onlyMean;
  byId("class-note").textContent = page.view.pd.onlyMean ? classWords(target, page.group.allRows) : "";
}

function chooseClass(page) {
  const { classes, drawn, shown } = page.data.target;
  byId("class-line").hidden = !classes;
  if (!classes) return;
  byId("class-choice").append(...drawn.map((k) => el("option", { value: k, selected: k === shown }, classes[k])));
  byId("class-choice").addEventListener("change", (event) => page.setClass(Number(event.target.value)));
}

function whyNoCurves(page, feature) {
  if (!page.group.rows.length) return "There are no curves: no row is in the subgroup.";
  if (feature.kind === "group") return "There are no curves of this feature: it is a group of columns, which has no single axis.";
  const { pi, pd } = feature.models[page.model];
  const first = page.data.models[0].name;
  if (page.model > 0 && !page.group.allRows && (pi || pd)) {
    return `There are no curves of this model in a subgroup: the page holds curves of single rows for ${first} only.`;
  }
  if (page.model > 0 && (feature.models[0].pi || feature.models[0].pd)) {
    return `No curves of this model are in the page: they are at other values than those of ${first}.`;
  }
  if (!page.group.allRows && (pi || pd)) {
    const some = page.data.features.filter((one) => one.models[0].cells).length;
    return `There are no curves of this subgroup: the page holds curves of single rows for ${some ? `the ${count(some)} most important features` : "no feature"}${some ? " only" : ""}.`;
  }
  return "No curves of this feature are in the page: donors were drawn for each row, so rows share no common values.";
}

function tile(title, ...content) {
  return el("div", { class: "tile" }, el("h3", {}, title), ...content);
}

// Plain words, and beside them those of the method.
const inBothWords = (words, method) => [`${words} `, el("span", { class: "method" }, `(${method})`)];

function tiles(page, feature, entry) {
  const { group, weight } = page;
  const m = page.model, { error } = page.data.models[m], { between, text, of } = page.told[m];
  const replaced = (name, pfi, label, base, ends) => told(page, name, pfi, label, { base, ...ends });
  const now = (base) => `as it is ${text(of(base))}`;
  const p = finite(entry.p) ? `, p ${entry.p < 0.0001 ? chance(entry.p) : `= ${chance(entry.p)}`}` : "";
  const found = [tile(inBothWords(`${capital(page.data.loss.unit)} when replaced`, "PFI, all rows"), replaced("pfi-all", entry.pfi, "PFI of all rows", error, entry), quiet(`${now(error)}; ${intervalOf(between(entry, error))}${p}`))];
  if (!group.allRows) {
    const base = page.errors[m];
    const given = replaced("pfi-given", givenPfi(entry, group.rows, weight), "PFI given the subgroup", base, groupInterval(feature, entry, { ...group, donors: "given" }, weight));
    const { pfi } = subsetOf(feature, entry, group.rows, weight);
    const wrong = errorOf(entry, group.rows.length);
    const subset = replaced("pfi-subset", pfi, "PFI within the subgroup", base, groupInterval(feature, entry, { ...group, donors: "subset" }, weight));
    if (wrong !== null) subset.dataset.error = wrong;
    const some = group.rows.length > 0;
    const how = some ? (finite(pfi) ? howExact(page, entry, base + pfi, wrong) : "its cells are not in this page") : "no rows";
    found.push(tile(inBothWords("In the subgroup, by values of all rows", "given"), given, quiet(`${some ? now(base) : "no rows"}${some && isSampled(entry) ? "; sampled" : some ? `; ${exactly(page.data)}` : ""}`), groupEnds(page, feature, entry, "given", given)));
    found.push(tile(inBothWords("In the subgroup, by its own values", "subset"), isSampled(entry) && finite(pfi) ? el("span", {}, "about ", subset) : subset, quiet(`subset: ${how}`), groupEnds(page, feature, entry, "subset", subset)));
  }
  if (finite(entry.sfimp)) {
    const share = output("sfimp", entry.sfimp, `SFIMP of all rows: ${number(entry.sfimp)} (${page.data.loss.title})`);
    const total = entry.sfimp / entry.share;
    if (finite(entry.share)) share.textContent = percent(entry.share);
    const ends = finite(entry.share) && finite(entry.sfimp_low) ? `; 95%: ${percent(entry.sfimp_low / total)} to ${percent(entry.sfimp_high / total)}` : "";
    found.push(tile(inBothWords("Share in what all features achieve", "SFIMP, all rows"), share, quiet(`of the smaller error by all features${ends}`)));
  }
  return found;
}

// The interval of a subgroup's number, how exact it is, or why there is none.
function groupEnds(page, feature, entry, donors, shown) {
  const { low, high, caution, off, why } = groupInterval(feature, entry, { ...page.group, donors }, page.weight);
  if (why) return quiet(why);
  Object.assign(shown.dataset, { low, high, off: off ?? "" });
  const about = off !== null && off > 0.01 ? `, its width to ± ${percent(off)}` : null;
  return el("span", { class: "quiet" }, intervalOf(page.told[page.model].between({ low, high }, page.errors[page.model])), about, caution ? ` △ ${caution}` : null);
}

// Local importances of a large page are rounded.
const exactly = ({ rounded }) => (rounded ? `± ${number(rounded.step / 2, 2)} at most` : "exact");

// The accuracy of a subset's number. Donors of sampled pairs are binned by rank.
function howExact(page, entry, loss, error) {
  const measured = error === null ? null : [plusMinus(page, loss, error).textContent.trim(), "at most, as measured"].join(" ");
  if (!isSampled(entry)) return measured ?? "exact";
  return `sampled, by bins of ranks: approximate${measured ? `, and its compressed curves are off by ${measured}` : ""}`;
}

const quiet = (text) => el("span", { class: "quiet" }, text);
const interval = (low, high) => (finite(low) && finite(high) ? `95%: ${rounded(low, [low, high])} to ${rounded(high, [low, high])}` : "");

function howComputed(page, feature, entry) {
  const model = page.data.models.length > 1 ? `${page.data.models[page.model].name}. ` : "";
  const exact = entry.exact ? "Exact over all pairs of rows" : "Sampled pairs of rows";
  return `${model}${exact} (${entry.design}; ${entry.engine}).`;
}

function note(page, side, entry) {
  const { drawn, axis, mean } = page.view[side];
  const { rows: { length: rows }, allRows } = page.group;
  const parts = [];
  if (drawn.length) {
    const what = `${axis.words ? "Thin marks" : "Thin lines"} (${side === "pi" ? "ICI" : "ICE"})`;
    const which = drawn.length < rows ? `${count(drawn.length)} of ${count(rows)} rows, evenly along their local importance, the extremes among them` : `all ${count(rows)} rows`;
    parts.push(`${what}: ${which}.`);
  }
  const form = side === "pi" ? entry.cells : entry.ice;
  if (drawn.length && form && !isWhole(form)) {
    const error = (side === "pi" ? curveErrorOf : pdErrorOf)(entry, rows);
    const method = side === "pi" ? "PI" : "PD";
    parts.push(`Curves of single rows are approximated to keep this file small${allRows ? "." : `, and so is the ${method} of the subgroup, by at most ± ${number(error, 2)}${side === "pi" ? ` (${page.data.loss.title})` : ""} as measured.`}`);
  }
  if (!allRows && mean && hasGaps(axis, mean)) parts.push(gapWords(axis, mean));
  return parts.join(" ");
}

// What the page does not hold for a class other than the shown one.
function classWords({ classes, shown }, allRows) {
  const only = `The page holds single rows and subgroups for ${classes[shown]} only`;
  return allRows ? `${only}.` : `${only}: this is the mean of all rows.`;
}

// How values that no row of the subgroup has are passed over.
function gapWords(axis, mean) {
  if (axis.words) return "Values without a filled point: no row of the subgroup has them.";
  const bridged = linesOf(axis, mean).bridge.x.length > 0;
  return `The line joins the values that rows of the subgroup have${bridged ? "; where they are far apart, it is thin and dotted" : ""}.`;
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function alternative(page, side, feature) {
  const { mean, axis, unit } = page.view[side];
  if (!mean) return `No curve for ${feature.name}`;
  const [low, high] = extent(Array.from(mean).filter(finite));
  const at = (value) => labelOf(axis, Array.from(mean).indexOf(value));
  return `${capital(unit)} along ${feature.name} (${side === "pi" ? "PI" : "PD"}): from ${number(low)} at ${at(low)} to ${number(high)} at ${at(high)}. The numbers are in the table below.`;
}

function drawLegend(page) {
  const { models } = page.data;
  const { allRows } = page.group;
  const several = models.length > 1 ? `${models[page.model].name}: ` : "";
  for (const side of SIDES) {
    const view = page.view[side];
    const method = side === "pi" ? "PI" : "PD";
    const items = [];
    const { words } = view.axis;
    const main = words ? (...about) => shapeKey(...about, "●") : key;
    if (view.mean) items.push(main(inkOf(side, page.model), `${several}mean of ${allRows ? "all rows" : "the subgroup"} (${method})${view.band ? ", 95% band" : ""}`));
    if (isFaded(page, side)) items.push(words ? shapeKey(inkOf(side, page.model), "on rows unlike real ones", "●", true) : key(inkOf(side, page.model), "on rows unlike real ones", true, true));
    if (view.all) items.push(words ? shapeKey("ink-soft", `mean of all rows (${method})`, "●") : key("ink-soft", `mean of all rows (${method})`, true));
    if (view.drawn.length) items.push(key("curve", "single rows"));
    view.others.forEach(({ m }, k) => {
      const text = `${models[m].name}${allRows ? "" : ", all rows"}`;
      items.push(words ? shapeKey(inkOf(side, m), text, "■◆▲"[k % 3]) : key(inkOf(side, m), text, true));
    });
    if (page.picked !== null && view.curveOf(page.picked)) items.push(key("picked", `row ${page.rowName(page.picked)}`));
    byId(`legend-${side}`).replaceChildren(...items);
  }
}

const key = (colour, text, dashed, faded) =>
  el("li", {}, el("span", { class: `key${dashed ? " dashed" : ""}${faded ? " faded" : ""}`, style: `border-color: var(--${colour})` }), text);

const shapeKey = (colour, text, shape, faded) =>
  el("li", {}, el("span", { class: `shape${faded ? " faded" : ""}`, style: `color: var(--${colour})`, "aria-hidden": "true" }, shape), text);

// Buttons of the rows with the largest and the smallest local importances.
function influential(page, entry) {
  const order = Array.from(page.group.rows).sort((a, b) => entry.local[b] - entry.local[a]);
  const fill = (id, rows) => byId(id).replaceChildren(...rows.map((i) => el("li", {}, rowButton(page, entry, i))));
  fill("most", order.slice(0, INFLUENTIAL));
  fill("least", order.slice(-INFLUENTIAL).reverse());
}

function rowButton(page, entry, i) {
  const { of, text } = page.told[page.model];
  const own = page.data.table.models[page.model].loss[i];
  const title = `local importance ${number(entry.local[i])} (${page.data.loss.title})`;
  return el("button", { type: "button", "data-row": i, title, onclick: () => page.pick(i) }, `row ${page.rowName(i)}`, quiet(` ${text(of(own))} → ${text(of(own + entry.local[i]))}`));
}

// The card of the row that is hovered, or else of the one that was picked.
function drawCard(page) {
  const i = page.lit ?? page.picked;
  const card = byId("card");
  card.dataset.row = i ?? "";
  if (i === null) {
    card.replaceChildren(el("p", { class: "quiet" }, "Hover or tap a curve, or choose a row: its values appear here."));
    return;
  }
  const feature = page.data.features[page.open];
  const entry = feature.models[page.model];
  const facts = [["local importance", output("card-local", entry.local[i], "local importance")]];
  for (const column of page.columns.filter(({ own }) => !own)) facts.push([column.name, textOf(column, i)]);
  const its = columnOf(page, feature);
  const own = page.columns.filter((column) => column.own).sort((a, b) => Number(b === its) - Number(a === its));
  const rest = own.map((column) => [column.name, textOf(column, i)]);
  const shown = el("dl", {}, [...facts, ...rest].map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
  const close = el("button", { type: "button", class: "small", onclick: () => page.pick(null) }, "Close");
  const choose = el("button", { type: "button", class: "small", onclick: () => page.parts.table.choose(i) }, "Choose it");
  const title = el("h3", {}, `Row ${page.rowName(i)}`);
  card.replaceChildren(el("div", { class: "card-head" }, title, ...(i === page.picked ? [choose, close] : [])), ...(i === page.picked ? whatIf(page, i) : []), shown);
}

// This row with another value of the open feature: its prediction and its error there, at the values that the page holds
// and nowhere between them.
function whatIf(page, i) {
  const { pd, pi } = page.view, { axis } = pd, feature = page.data.features[page.open];
  const prediction = pd.curveOf(i), error = pi.curveOf(i), places = axis.shown;
  const column = columnOf(page, feature);
  if (!(prediction || error) || !column || places.length < 2) return [];
  const own = axis.words ? feature.own[i] : nearestValue(axis, Number.isNaN(column.values[i]) ? axis.missing : column.values[i]);
  const others = page.shownClass === page.data.target.shown ? page.data.table.models[page.model].prediction : null;
  const said = (v) => [
    `${labelOf(axis, v)}:`, prediction ? `${pd.unit} ${number(prediction[v])}` : "",
    prediction && finite(others?.[0]) ? `(larger than that of ${percent(Array.from(others).filter((one) => one < prediction[v]).length / others.length)} of the rows)` : "",
    error ? `${prediction ? "; its " : "its "}own ${page.told[page.model].falls ? "probability of the true class" : "error"} ${page.told[page.model].text(error[v])}` : "",
  ].filter(Boolean).join(" ").replace(" ;", ";");
  const shown = el("output", { "data-name": "what-if", "aria-live": "polite" }, said(own));
  const slide = (event) => {
    const v = places[Number(event.target.value)];
    shown.textContent = said(v);
    event.target.setAttribute("aria-valuetext", labelOf(axis, v));
  };
  const slider = el("input", { type: "range", min: 0, max: places.length - 1, step: 1, value: Math.max(0, places.indexOf(own)), oninput: slide, "aria-label": `This row, if ${feature.name} were`, "aria-valuetext": labelOf(axis, own) });
  return [el("div", { class: "what-if" }, quiet(`This row, if ${shortened(feature.name, 40)} were `), slider, shown)];
}

// The numbers of the curves: for screen readers, and to copy.
function drawNumbers(page) {
  const feature = page.data.features[page.open];
  const { pi, pd } = page.view;
  const g = pi.axis.x.length;
  const step = Math.max(1, Math.ceil(g / LONGEST));
  const places = Array.from({ length: g }, (_, v) => v).filter((v) => v % step === 0);
  const entry = feature.models[page.model];
  const groups = page.group.allRows ? [] : [["PI, all rows", (v) => entry.pi?.[v]], ["PD, all rows", (v) => pd.all?.[v]]];
  const shown = (name, value, v) => (name.startsWith("PI") && finite(value)
    ? told(page, `${name}-${v}`, value, name, { base: name === "PI" ? page.errors[page.model] : page.data.models[page.model].error }) : output(`${name}-${v}`, value, null, 5));
  const { allRows, rows: members } = page.group;
  const about = (is) => (!allRows && is ? ", about" : "");
  const piTitle = `PI${about(curveErrorOf(entry, members.length) !== null || isSampled(entry))}`;
  const pdTitle = `PD${about(entry.ice && !isWhole(entry.ice))}`;
  const columns = [["PI", (v) => pi.changes?.[v], piTitle], ["PD", (v) => pd.mean?.[v], pdTitle], ...groups];
  const head = el("tr", {}, [feature.name, "share of donors", ...columns.map(([name, , title]) => title ?? name)].map((name) => el("th", { scope: "col" }, name)));
  const rows = places.map((v) => el("tr", {},
    el("th", { scope: "row" }, labelOf(pi.axis, v)),
    el("td", { class: "number" }, `${number(100 * feature.weights[v], 3)}%`),
    columns.map(([name, of]) => el("td", { class: "number" }, shown(name, of(v), v)))));
  byId("curve-table").replaceChildren(el("thead", {}, head), el("tbody", {}, rows));
  byId("curve-table-note").textContent = step > 1 ? `Every ${step}th of ${g} values.` : "";
}
