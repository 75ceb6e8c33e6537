// Interactions of pairs of features. Drawn once: there are no numbers of subgroups.

function pairs(page) {
  const found = page.data.interactions;
  if (!found) return;
  const ends = found.pairs.flatMap((one) => [one.value, one.low, one.high]).filter(finite);
  const [low, high] = extent([0, ...ends]);
  const scale = (value) => 2 + (96 * (value - low)) / (high - low || 1);
  const { error, error_none: none } = page.data.models[0];
  const whole = !found.by && none > error ? none - error : null; // of the shares of features, too
  const text = (value, one) => (whole === null ? rounded(value, [one.low, one.high]) : percent(value / whole));
  byId("together-unit").textContent = whole === null ? "interaction" : "interaction, of what all features achieve";
  pairMap(page, found.map);
  byId("together-body").replaceChildren(...found.pairs.map((one, k) => pairLine(page, one, k, scale, text)));
}

function pairLine(page, one, k, scale, text) {
  const shown = output(`pair-${k}`, one.value, `${one.first} and ${one.second} together`);
  const ends = finite(one.low) ? `${text(one.low, one)} to ${text(one.high, one)}` : "–";
  shown.textContent = finite(one.value) ? text(one.value, one) : "–";
  shown.title = `${number(one.value)} (${page.data.interactions.by || page.data.loss.title})`;
  return el("tr", {},
    el("th", { scope: "row" }, nameButton(page, one.first), " and ", nameButton(page, one.second)),
    el("td", { class: "bars" }, pairBar(one, scale, `${one.first} and ${one.second}: ${shown.textContent}, interval ${ends}`)),
    el("td", { class: "number" }, shown),
    el("td", { class: "number" }, ends),
    el("td", { class: "number" }, finite(one.p) ? chance(one.p) : "–"));
}

// The strongest pair, over both: what the error and the prediction are where all rows get these two values.
function pairMap(page, map) {
  byId("pair-map").hidden = !map;
  if (!map) return;
  const { of, text, falls } = page.told[0], { target, loss } = page.data;
  byId("pair-map-title").textContent = `${map.first} and ${map.second} at once`;
  byId("pair-map-words").textContent = `${map.n < page.data.n_explained ? `A sample of ${count(map.n)} rows` : `All ${count(map.n)} rows`} get the middle of both ranges: the ${loss.unit} then (PI; as it is ${text(of(map.error))}), darker where it is worse, and the mean prediction (PD), darker where it is larger. Hatched: no row has both, so nobody knows whether the model is right there.`;
  const error = map.loss.map((row) => row.map(of)), shown = target.classes ? `probability of ${target.classes[target.shown]}` : `prediction of ${target.name}`;
  const like = (grid) => { const ends = extent(grid.flat().filter(finite)); return (value) => rounded(value, [value - (ends[1] - ends[0]) / 20, value + (ends[1] - ends[0]) / 20]); };
  const chances = target.classes && target.reads === "probabilities";
  const alone = like(error);
  mapTable(byId("pair-map-error"), map, error, capital(loss.unit), (value) => (["typical", "wrong"].includes(loss.told_as) ? text(value) : alone(value)), falls);
  byId("pair-map-pd").hidden = !map.prediction;
  if (map.prediction) mapTable(byId("pair-map-prediction"), map, map.prediction, capital(shown), chances ? percent : like(map.prediction), false);
}

function mapTable(table, map, grid, title, text, falls) {
  const [low, high] = extent(grid.flat().filter(finite));
  const part = (value) => (high > low ? (falls ? high - value : value - low) / (high - low) : 0);
  const cell = (value, held) => el("td", { class: held ? "number" : "number no-rows", style: `--part: ${finite(value) ? part(value).toFixed(3) : 0}`, title: held ? `${count(held)} row${held > 1 ? "s" : ""} with both` : "no row has both" },
    text(value), held ? null : el("span", { class: "hidden" }, " (no row has both)"));
  table.replaceChildren(el("caption", {}, title),
    el("thead", {}, el("tr", {}, el("td", {}, `${map.first} ↓  ${map.second} →`), map.columns.map((label) => el("th", { scope: "col", class: "number" }, label)))),
    el("tbody", {}, map.rows.map((label, u) => el("tr", {}, el("th", { scope: "row" }, label), grid[u].map((value, v) => cell(value, map.count[u][v]))))));
}

function nameButton(page, name) {
  const f = page.data.features.findIndex((feature) => feature.name === name);
  return el("button", { type: "button", class: "name", title: name, onclick: () => page.openFeature(f, true) }, breakable(name));
}

// Hollow: not significantly different from 0.
function pairBar(one, scale, label) {
  const sure = one.p <= 0.05;
  const parts = [line("zero", scale(0), scale(0), 0, 24), line("pair bar", scale(0), scale(one.value), 12, 12)];
  if (finite(one.low)) parts.push(line("pair", scale(one.low), scale(one.high), 12, 12));
  parts.push(svg("circle", { class: sure ? "pair mark" : "pair hollow", cx: `${scale(one.value)}%`, cy: 12, r: 5 }));
  return svg("svg", { class: "bars", role: "img", "aria-label": label, height: 24 }, parts);
}
