// How good the chosen model is: error and best constant, R² or accuracy, and where its predictions are off. Summaries
// of many rows, made in Python: nothing here needs rows.

function drawQuality(page) {
  if (!byId("quality")) return;
  const model = page.data.models[page.model];
  const found = model.quality;
  byId("quality-flags").replaceChildren(...found.sentences.map((text) =>
    el("p", { class: "far-note" }, el("span", { class: "far", "aria-hidden": "true" }, "△"), ` ${text}`)));
  byId("quality-numbers").replaceChildren(...qualityTiles(page, model, found));
  const tables = [];
  if (found.residuals) tables.push(residualTable(found.residuals));
  found.calibration?.forEach((one, k) => tables.push(calibrationTable(one, k)));
  if (found.confusion) tables.push(confusionTable(found.confusion));
  byId("quality-tables").replaceChildren(...tables);
}

function qualityTiles(page, model, found) {
  const { constant, score } = found;
  const which = page.data.models.length > 1 ? model.name : "the model";
  const ends = { low: model.error_low, high: model.error_high }, m = page.model;
  const tiles = [tile(`${page.told[m].falls ? capital(page.data.loss.unit) : `Error of ${which}`}`, told(page, "quality-error", model.error, "error of the model", ends),
    quiet(`${page.told[m].falls ? which : page.data.loss.unit}; ${intervalOf(page.told[m].between(ends)) || "no interval"}`))];
  if (constant) {
    tiles.push(tile(`Always predicting ${constant.predicts}`, told(page, "quality-constant", constant.error, "error of the best constant", ends),
      quiet(page.told[m].falls ? "the probability to beat" : "the error to beat")));
  }
  if (finite(model.error_none)) tiles.push(tile("All features from another row", told(page, "quality-none", model.error_none, "error with all features from another row", ends), quiet("without any feature")));
  if (found.bound) {
    const { rows, n, bound, without } = found.bound;
    tiles.push(tile("Rows at the bound", el("span", {}, `${count(rows)} of ${count(n)}`), quiet(`whose ${page.data.loss.title} is set to ${number(bound)}; without them ${page.told[m].text(page.told[m].of(without))}`)));
  }
  if (score?.name === "accuracy") {
    tiles.push(tile("Class predicted right (accuracy)", shownShare("quality-score", score.value, score.text), quiet(shareInterval(score))));
    tiles.push(tile("Always the most frequent class", shownShare("quality-base", score.base, score.base_text), quiet("the accuracy to beat")));
  } else if (score) {
    tiles.push(tile("Variation explained (R²)", output("quality-score", score.value, "R²", 3), quiet(`1: all, 0: none; ${interval(score.low, score.high)}`)));
  }
  return [...tiles, ...(page.group.allRows ? [] : [subgroupTile(page)])];
}

function subgroupTile(page) {
  const { rows } = page.group;
  const found = errorInterval(page.data, page.model, rows, page.weight);
  return tile("Error in the subgroup", told(page, "subgroup-error", found.value, "error in the subgroup", found),
    quiet(`${count(rows.length)} rows; ${intervalOf(page.told[page.model].between(found)) || "too few rows for an interval"}`), found.caution ? quiet(`△ ${found.caution}`) : null);
}

// Beside the description of the subgroup: how well the model does there.
function drawSubgroupError(page) {
  const place = byId("subgroup-error");
  place.hidden = page.group.allRows || !page.group.rows.length;
  if (place.hidden) return;
  const { value, low, high, caution } = errorInterval(page.data, page.model, page.group.rows, page.weight);
  const { text, of, between: ends } = page.told[page.model];
  const shown = told(page, "subgroup-error", value, "error in the subgroup", { low, high });
  Object.assign(shown.dataset, { low, high });
  place.replaceChildren("error ", shown, ` (${intervalOf(ends({ low, high })) || "too few rows for an interval"}), all rows ${text(of(page.data.models[page.model].error), page.told[page.model].ends({ low, high }))}`, careful(caution) ?? "");
}

// A share with one decimal, rounded half up; neither a small one as none, nor nearly all as all.
function percent(value) {
  const share = Number(value.toPrecision(12));
  if (share === 0 || share === 1) return `${100 * share}%`;
  const rounded = Math.round(Number((1000 * share).toPrecision(12))) / 10;
  if (rounded === 0) return share > 0 ? "under 0.1%" : "above −0.1%";
  return rounded === 100 && share < 1 ? "over 99.9%" : withMinus(`${rounded.toFixed(1)}%`);
}

const shareInterval = ({ low, high }) => `95%: ${percent(low)} to ${percent(high)}`;

const share = (name, value) => shownShare(name, value, percent(value));

function shownShare(name, value, text) {
  return el("output", { "aria-live": "off", "data-name": name, "data-value": String(value) }, text);
}

function qualityTable(name, title, about, heads, rows) {
  const head = heads.map(([text, kind]) => el("th", { scope: "col", class: kind }, text));
  return el("div", {}, el("h3", {}, title), about ? el("p", { class: "quiet" }, about) : null,
    el("div", { class: "scroll low", tabindex: "0", role: "group", "aria-label": title },
      el("table", { class: name }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows))));
}

const rangeText = ({ low, high }) => (low === high ? number(low, 3) : `${number(low, 3)} to ${number(high, 3)}`);

// One line a range of predictions: residuals of 9 in 10 rows as a line, of the middle half as a bar, and their mean.
function residualTable(ranges) {
  const [low, high] = extent([0, ...ranges.flatMap((one) => [...one.quantiles, one.mean_low, one.mean_high]).filter(finite)]);
  const scale = (value) => 2 + (96 * (value - low)) / (high - low || 1);
  const rows = ranges.map((one, k) => el("tr", { class: one.off ? "off" : null },
    el("th", { scope: "row" }, rangeText(one), one.off ? el("span", { class: "far", role: "img", "aria-label": "surely off" }, " △") : null),
    el("td", { class: "number" }, count(one.n)),
    el("td", { class: "bars" }, residualBar(one, scale)),
    el("td", { class: "number" }, output(`residual-${k}`, one.mean, "mean of target less prediction", 3))));
  return qualityTable("residuals", "Is it off for small or large predictions?",
    "Target less prediction (residual), in ranges of the prediction. Pale line: 9 in 10 rows; bar: the middle half; dot: the mean with its 95% interval. A dot beside the line at 0: predictions are too low (right of it) or too high (left).",
    [["Prediction"], ["rows", "number"], ["target less prediction", "bars"], ["mean", "number"]], rows);
}

function residualBar(one, scale) {
  const [far, low, middle, high, top] = one.quantiles;
  const dot = one.off ? "off mark" : "pfi mark";
  const parts = [line("zero strong", scale(0), scale(0), 0, 24), line("spread", scale(far), scale(top), 12, 12), line("half", scale(low), scale(high), 12, 12),
    line("middle", scale(middle), scale(middle), 7, 17)];
  if (finite(one.mean_low)) parts.push(line(one.off ? "off" : "pfi", scale(one.mean_low), scale(one.mean_high), 12, 12));
  parts.push(svg("circle", { class: dot, cx: `${scale(one.mean)}%`, cy: 12, r: 4 }));
  const label = `predictions ${rangeText(one)}: mean residual ${number(one.mean, 3)}, median ${number(middle, 3)}, 9 in 10 from ${number(far, 3)} to ${number(top, 3)}`;
  return svg("svg", { class: "bars", role: "img", "aria-label": label, height: 24 }, parts);
}

function calibrationTable({ label: name, ranges }, k) {
  const label = shortened(name, 40);
  const at = (value) => 2 + 96 * value;
  const between = rangesApart(ranges);
  const rows = ranges.map((one, r) => el("tr", { class: one.off ? "off" : null },
    el("th", { scope: "row" }, between(one), one.off ? el("span", { class: "far", role: "img", "aria-label": "surely off" }, " △") : null),
    el("td", { class: "number" }, count(one.n)),
    el("td", { class: "bars" }, calibrationBar(one, at)),
    el("td", { class: "number" }, percent(one.predicted)),
    el("td", { class: "number" }, share(`observed-${k}-${r}`, one.observed))));
  const about = k > 0 ? "" : `How often class ${label} occurs (dot, with its 95% interval) where the model gives it this probability (tick: the mean). A dot right of its tick: more often than predicted.`;
  return qualityTable(`calibration-${k + 1}`, `${k > 0 ? "The same of" : "Can its probabilities be trusted?"} Class ${label}`.replace("of Class", "of class"), about,
    [["Probability"], ["rows", "number"], ["from 0 to 1", "bars"], ["mean", "number"], ["occurs in", "number"]], rows);
}

// Ranges of probabilities with as many decimals as tell them apart.
function rangesApart(ranges) {
  const texts = (share) => ranges.map(({ low, high }) => (share(low) === share(high) ? share(low) : `${share(low)} to ${share(high)}`));
  const apart = (all) => new Set(all).size === all.length;
  const ways = [percent, ...[1, 2, 3, 4, 5, 6, 8, 10].map((d) => (value) => `${(100 * value).toFixed(d)}%`)];
  const all = ways.map(texts).find(apart) ?? texts((value) => String(value));
  return (one) => all[ranges.indexOf(one)];
}

function calibrationBar(one, at) {
  const kind = one.off ? "off" : "pfi";
  const parts = [line("zero", at(0), at(1), 12, 12), line("middle", at(one.predicted), at(one.predicted), 3, 21),
    line(kind, at(one.observed_low), at(one.observed_high), 12, 12), svg("circle", { class: `${kind} mark`, cx: `${at(one.observed)}%`, cy: 12, r: 4 })];
  const label = `predicted ${number(one.predicted, 3)}, occurs in ${percent(one.observed)}, interval ${percent(one.observed_low)} to ${percent(one.observed_high)}`;
  return svg("svg", { class: "bars", role: "img", "aria-label": label, height: 24 }, parts);
}

// Shares of the rows of each true class: the diagonal is right.
function confusionTable({ labels, shares, rows: counts }) {
  const rows = shares.map((line, i) => {
    const total = line.reduce((sum, value) => sum + value, 0);
    return el("tr", {}, el("th", { scope: "row", title: labels[i] }, shortened(labels[i], 30)), el("td", { class: "number" }, count(counts[i])),
      line.map((value, j) => {
        const part = total > 0 ? value / total : 0;
        return el("td", { class: `number part ${i === j ? "right" : "wrong"}`, style: `--part: ${part.toFixed(3)}` },
          total > 0 ? share(`confusion-${i}-${j}`, part) : "–");
      }));
  });
  return qualityTable("confusion", "Which classes does it confuse?",
    "Each line is a true class: how its rows are predicted. Blue: right; grey: wrong.",
    [["True class"], ["rows", "number"], ...labels.map((label) => [`→ ${shortened(label, 20)}`, "number"])], rows);
}
