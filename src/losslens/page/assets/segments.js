// Where the first model is worst: groups of rows with a larger error, beside all rows. One click makes one the subgroup.

function weakSegments(page) {
  const found = page.data.segments;
  if (!found?.segments.length) return;
  const { whole, segments } = found;
  const { of, falls } = page.told[0];
  const all = { ...whole, rule: "all rows", share: 1, conditions: [] };
  const scale = levelScale([whole, ...segments.map(heldOut)].flatMap((one) => [one.error, one.low, one.high]).map(of), falls);
  byId("segments-body").replaceChildren(...[all, ...segments].map((one, k) => segmentLine(page, one, k, scale, scale(of(whole.error)))));
}

// What the rows say that had no part in finding the rule.
const heldOut = (one) => ({ error: one.judged_error, low: one.judged_low, high: one.judged_high });

function segmentLine(page, one, k, scale, usual) {
  const { of, text, between, ends } = page.told[0];
  const held = k ? heldOut(one) : one;
  const level = (loss) => text(of(loss), ends(held));
  return el("tr", {},
    el("th", { scope: "row", class: "rule" }, one.rule, showRows(page, one, one.rule, { "data-segment": k - 1 })),
    el("td", { class: "number" }, count(one.n), k ? quiet(` ${percent(one.share)}`) : null),
    el("td", { class: "number" }, told(page, k ? `segment-${k - 1}` : "segments-all", one.error, `error where ${one.rule}`, { m: 0, ...held })),
    el("td", { class: "number" }, k ? level(one.other) : "–"),
    el("td", { class: "bars" }, segmentBar(page, k ? { ...one, ...held } : one, k, scale, usual)),
    el("td", { class: "number" }, count(k ? one.judged : one.n)),
    el("td", { class: "number" }, level(held.error)),
    el("td", { class: "number" }, between(held) || "–"),
    el("td", { class: "number" }, k ? level(one.judged_other) : "–"),
    el("td", { class: "number" }, k ? chance(one.p) : "–"));
}

// The dashed line is the error of all rows.
function segmentBar(page, one, k, scale, usual) {
  const { of, text, between: ends } = page.told[0];
  const at = (loss) => scale(of(loss));
  const parts = [line("usual", usual, usual, 0, 24), line("error bar", usual, at(one.error), 12, 12)];
  if (finite(one.low)) parts.push(line("error", at(one.low), at(one.high), 12, 12));
  parts.push(svg("circle", { class: "error mark", cx: `${at(one.error)}%`, cy: 12, r: 5 }));
  const label = `error where ${one.rule}: ${text(of(one.error))}, interval ${ends(one) || "unknown"}`;
  return svg("svg", { class: "bars", role: "img", "aria-label": label, height: 24 }, parts);
}

// The button that makes these rows the subgroup; none on a page without rows.
function showRows(page, { conditions }, where, named) {
  if (!conditions?.length) return null;
  const show = () => page.setConditions(conditions.map((condition) => conditionOf(page, condition)));
  return [" ", el("button", { type: "button", class: "small", "aria-label": `Show the rows where ${where}`, onclick: show, ...named }, "Show these rows")];
}

function conditionOf(page, { column, chosen, low, high, missing }) {
  const { key } = page.columns.find((one) => one.own && one.name === column);
  return chosen ? { key, chosen: new Set(chosen) } : { key, low, high, missing };
}
