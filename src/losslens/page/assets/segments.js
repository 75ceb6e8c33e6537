// Where the first model is worst: groups of rows with a larger error, beside all rows. One click makes one the subgroup.

function weakSegments(page) {
  const found = page.data.segments;
  if (!found?.segments.length) return;
  const { whole, segments } = found;
  const all = { ...whole, rule: "all rows", share: 1, conditions: [] };
  const scale = spanOf([whole, ...segments.map(heldOut)]);
  byId("segments-body").replaceChildren(...[all, ...segments].map((one, k) => segmentLine(page, one, k, scale, scale(whole.error))));
}

// What the rows say that had no part in finding the rule.
const heldOut = (one) => ({ error: one.judged_error, low: one.judged_low, high: one.judged_high });

function segmentLine(page, one, k, scale, usual) {
  return el("tr", {},
    el("th", { scope: "row", class: "rule" }, one.rule, showRows(page, one, one.rule, { "data-segment": k - 1 })),
    el("td", { class: "number" }, count(one.n), k ? quiet(` ${percent(one.share)}`) : null),
    el("td", { class: "number" }, output(k ? `segment-${k - 1}` : "segments-all", one.error, `error where ${one.rule}`)),
    el("td", { class: "number" }, k ? likeThat(one.other, one.error) : "–"),
    el("td", { class: "bars" }, segmentBar(k ? { ...one, ...heldOut(one) } : one, k, scale, usual)),
    el("td", { class: "number" }, k ? count(one.judged) : count(one.n)),
    el("td", { class: "number" }, k ? likeThat(one.judged_error, one.error) : number(one.error)),
    el("td", { class: "number" }, k ? `${likeThat(one.judged_low, one.error)} to ${likeThat(one.judged_high, one.error)}` : between(one)),
    el("td", { class: "number" }, k ? likeThat(one.judged_other, one.error) : "–"),
    el("td", { class: "number" }, k ? chance(one.p) : "–"));
}

// The dashed line is the error of all rows.
function segmentBar(one, k, scale, usual) {
  const kind = k ? "pfi" : "sfimp";
  const parts = [line("zero", scale(0), scale(0), 0, 24), line("usual", usual, usual, 0, 24), line(`${kind} bar`, scale(0), scale(one.error), 12, 12)];
  if (finite(one.low)) parts.push(line(kind, scale(one.low), scale(one.high), 12, 12));
  parts.push(svg("circle", { class: `${kind} mark`, cx: `${scale(one.error)}%`, cy: 12, r: 5 }));
  const label = `error where ${one.rule}: ${number(one.error)}, interval ${between(one)}`;
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
