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

function nameButton(page, name) {
  const f = page.data.features.findIndex((feature) => feature.name === name);
  return el("button", { type: "button", class: "name", title: name, onclick: () => page.openFeature(f, true) }, name);
}

// Hollow: not significantly different from 0.
function pairBar(one, scale, label) {
  const sure = one.p <= 0.05;
  const parts = [line("zero", scale(0), scale(0), 0, 24), line("pair bar", scale(0), scale(one.value), 12, 12)];
  if (finite(one.low)) parts.push(line("pair", scale(one.low), scale(one.high), 12, 12));
  parts.push(svg("circle", { class: sure ? "pair mark" : "pair hollow", cx: `${scale(one.value)}%`, cy: 12, r: 5 }));
  return svg("svg", { class: "bars", role: "img", "aria-label": label, height: 24 }, parts);
}
