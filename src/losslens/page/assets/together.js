// Interactions of pairs of features. Drawn once: there are no numbers of subgroups.

function pairs(page) {
  const found = page.data.interactions;
  if (!found) return;
  const ends = found.pairs.flatMap((one) => [one.value, one.low, one.high]).filter(finite);
  const [low, high] = extent([0, ...ends]);
  const scale = (value) => 2 + (96 * (value - low)) / (high - low || 1);
  byId("together-body").replaceChildren(...found.pairs.map((one, k) => pairLine(page, one, k, scale)));
}

function pairLine(page, one, k, scale) {
  return el("tr", {},
    el("th", { scope: "row" }, nameButton(page, one.first), " and ", nameButton(page, one.second)),
    el("td", { class: "bars" }, pairBar(one, scale)),
    el("td", { class: "number" }, output(`pair-${k}`, one.value, `${one.first} and ${one.second} together`)),
    el("td", { class: "number" }, between(one)),
    el("td", { class: "number" }, finite(one.p) ? chance(one.p) : "–"));
}

function nameButton(page, name) {
  const f = page.data.features.findIndex((feature) => feature.name === name);
  return el("button", { type: "button", class: "name", title: name, onclick: () => page.openFeature(f, true) }, name);
}

// Hollow: not significantly different from 0.
function pairBar(one, scale) {
  const sure = one.p <= 0.05;
  const parts = [line("zero", scale(0), scale(0), 0, 24), line("pair bar", scale(0), scale(one.value), 12, 12)];
  if (finite(one.low)) parts.push(line("pair", scale(one.low), scale(one.high), 12, 12));
  parts.push(svg("circle", { class: sure ? "pair mark" : "pair hollow", cx: `${scale(one.value)}%`, cy: 12, r: 5 }));
  const label = `${one.first} and ${one.second}: ${number(one.value)}, interval ${between(one)}`;
  return svg("svg", { class: "bars", role: "img", "aria-label": label, height: 24 }, parts);
}
