// Several models on the same rows: errors and importances, and paired differences from a model that can be chosen. Of all
// rows they were computed in Python; errors of a subgroup are computed here, from the losses of its rows.

const MODELS_AT_FIRST = 8; // features listed

function compared(page) {
  if (!page.data.compared) return;
  const base = byId("model-base"), more = byId("models-more");
  const bases = page.data.models.map((_, m) => m).filter((m) => page.data.models.every((__, k) => k === m || pairOf(page, m, k)));
  base.append(...bases.map((m) => el("option", { value: m, title: page.data.models[m].name }, shortened(page.data.models[m].name, 40))));
  base.addEventListener("change", () => drawCompared(page));
  more.addEventListener("click", () => { more.dataset.all = more.dataset.all ? "" : "yes"; drawCompared(page); });
  byId("models-legend").append(...page.data.models.map((model, m) => el("li", {}, el("span", { class: `model-ink model-${m % 5}` }, "● "), modelName(model.name))));
}

// The differences of two models, first less second, however they were computed.
function pairOf(page, first, second) {
  const found = page.data.compared.differences.find((one) => one.first === Math.min(first, second) && one.second === Math.max(first, second));
  return found && (first < second ? found : { error: turned(found.error), importances: found.importances.map(turned) });
}

const modelName = (name) => el("span", { title: name }, shortened(name, 30));

const turned = ({ value, low, high, p }) => ({ value: finite(value) ? 0 - value : null, low: finite(high) ? 0 - high : null, high: finite(low) ? 0 - low : null, p });

function drawCompared(page) {
  if (!page.data.compared) return;
  const base = Number(byId("model-base").value);
  drawErrors(page, base);
  drawImportances(page, base);
}

function drawErrors(page, base) {
  const { data, group, weight } = page;
  const some = !group.allRows && group.rows.length > 0;
  const errors = data.models.map((model, m) => (some ? errorInterval(data, m, group.rows, weight) : { value: model.error, low: model.error_low, high: model.error_high }));
  const differences = data.models.map((_, m) => (m === base ? null : some ? lossDifference(page, m, base) : pairOf(page, m, base)?.error));
  const ofModel = (m, loss, ends) => page.told[m].text(page.told[m].of(loss), ends && page.told[m].ends(ends));
  const scale = levelScale(errors.flatMap((one, m) => [one.value, one.low, one.high].map(page.told[m].of)), page.told[0].falls), apart = spanOf(differences.filter(Boolean));
  const head = (text, kind) => el("th", { scope: "col", class: kind }, text);
  byId("models-head").replaceChildren(el("tr", {}, head("Model"), head(`${data.loss.unit}${some ? ", in the subgroup" : ""}`, "bars"), head("95% interval", "number"),
    head(some ? "all rows" : "best constant", "number"), some ? null : head("smaller by", "number"), head(["error less that of ", modelName(data.models[base].name)], "bars"), head(`difference (${data.loss.title})`, "number"), head("95% interval", "number")));
  byId("models-body").replaceChildren(...data.models.map((model, m) => el("tr", {},
    el("th", { scope: "row" }, el("span", { class: `model-ink model-${m % 5}` }, "● "), modelName(model.name)),
    el("td", { class: "bars" }, estimate(page, m, `model-error-${m}`, errors[m].value, errors[m], scale, `model-${m % 5}`, `error of ${model.name}`)),
    el("td", { class: "number" }, page.told[m].between(errors[m]) || "–"),
    el("td", { class: "number" }, finite(some ? model.error : model.error_constant) ? ofModel(m, some ? model.error : model.error_constant, errors[m]) : "–"),
    some ? null : el("td", { class: "number" }, finite(model.skill) ? percent(model.skill) : ""),
    m === base ? [el("td", { class: "bars quiet" }, "compared with this one"), el("td"), el("td")] : [
      el("td", { class: "bars" }, differenceBar(differences[m], apart, `error of ${model.name} less ${data.models[base].name}`)),
      el("td", { class: "number" }, difference(`model-difference-${m}`, differences[m], `difference of ${model.name}`)),
      el("td", { class: "number" }, between(differences[m]))])));
}

// The paired difference of errors in the subgroup.
function lossDifference(page, first, second) {
  const { models: all } = page.data.table;
  const apart = Float64Array.from(all[first].loss, (value, i) => value - all[second].loss[i]);
  return meanWithInterval(apart, page.group.rows, page.weight);
}

// One scale for all models and features.
function drawImportances(page, base) {
  const { data } = page;
  const more = byId("models-more");
  const order = data.features.map((_, f) => f).sort((a, b) => mostOf(page, b) - mostOf(page, a));
  const shown = more.dataset.all ? order : order.slice(0, MODELS_AT_FIRST);
  more.hidden = order.length <= MODELS_AT_FIRST;
  more.textContent = more.dataset.all ? `Show the first ${MODELS_AT_FIRST}` : `Show all ${order.length} features`;
  const levels = shown.flatMap((f) => data.models.flatMap((_, m) => { const { pfi, ends } = page.numbers[f][m]; return [0, pfi, ends.low, ends.high].map((change) => page.told[m].of(page.errors[m] + change)); }));
  const [low, high] = extent(levels.filter(finite));
  const scale = (value) => 3 + (94 * (value - low)) / (high - low || 1);
  byId("models-scale").textContent = `${data.loss.measure} when the feature's values come from other rows (PFI)${page.group.allRows ? "" : ", in the subgroup"}. Ticks: as it is; lines: 95% intervals; one scale for all models. Differences are of the increases of the ${data.loss.title}, of all rows, paired: bold where the interval excludes 0. Intervals are not adjusted for multiple comparisons.`;
  const others = data.models.map((_, m) => m).filter((m) => m !== base);
  byId("model-features-head").replaceChildren(el("tr", {}, el("th", { scope: "col" }, "Feature"), el("th", { scope: "col", class: "bars" }, el("span", { class: "hidden" }, "picture"), ticks(page, scale, low, high)),
    others.flatMap((m) => [el("th", { scope: "col", class: "number" }, modelName(data.models[m].name), " less ", modelName(data.models[base].name)), el("th", { scope: "col", class: "number" }, "95% interval")])));
  byId("model-features-body").replaceChildren(...shown.map((f) => el("tr", {},
    el("th", { scope: "row" }, el("button", { type: "button", class: "name label", title: data.features[f].name, onclick: () => page.openFeature(f, true) }, data.features[f].name)),
    el("td", { class: "bars" }, modelBars(page, f, scale)),
    others.flatMap((m) => differenceCells(pairOf(page, m, base)?.importances[f], `model-pfi-${f}-${m}`, data.features[f].name)))));
}

const mostOf = (page, f) => Math.max(...page.numbers[f].map(({ pfi }) => (finite(pfi) ? pfi : -Infinity)));

function differenceCells(one, name, label) {
  if (!one) return [el("td"), el("td")];
  return [el("td", { class: `number ${isSure({ low: one.low, high: one.high }) ? "sure" : ""}` }, difference(name, one, `difference of ${label}`)), el("td", { class: "number" }, between(one))];
}

function modelBars(page, f, scale) {
  const feature = page.data.features[f];
  const tall = 13 * feature.models.length + 4;
  const parts = [];
  const said = feature.models.map((_, m) => {
    const { pfi, ends } = page.numbers[f][m], { of, text } = page.told[m];
    const at = (change) => scale(of(page.errors[m] + change));
    const y = 8 + 13 * m, kind = `model-${m % 5}`;
    parts.push(line(kind, at(0), at(0), y - 5, y + 5));
    if (finite(ends.low)) parts.push(line(kind, at(ends.low), at(ends.high), y, y));
    if (finite(pfi)) parts.push(svg("circle", { class: `${kind} mark`, cx: `${at(pfi)}%`, cy: y, r: 4 }));
    return `${page.data.models[m].name} ${text(of(page.errors[m] + pfi))}`;
  });
  return svg("svg", { class: "bars", role: "img", "aria-label": `${feature.name}: ${said.join(", ")}`, height: tall }, parts);
}

// A few round numbers above the pictures.
function ticks(page, scale, low, high) {
  return svg("svg", { class: "bars ticks", height: 16, "aria-hidden": "true" }, ticksOf([low, high], 3).map((value) => svg("text", { x: `${scale(value)}%`, y: 12, "text-anchor": "middle" }, ["typical", "wrong"].includes(page.data.loss.told_as) ? percent(value) : tickText(value))));
}
