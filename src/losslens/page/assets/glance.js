// The leading features at a glance: the PI curve of each over the distribution of its values, all on one scale, faded
// where rows are unlike real ones, with the value at which the feature matters most. A click opens the feature.

const PANELS = 8, PANEL = 100, FOOT = 16; // panels, and the heights of a curve and of the distribution under it
const MOST_WORDS = 7; // categories of a panel: the most frequent ones
const PANEL_BINS = 24;

function drawGlance(page) {
  const base = page.errors[page.model], { of, curve: tell } = page.told[page.model];
  const panels = page.data.features.map((feature, f) => ({ feature, f, entry: feature.models[page.model] }))
    .filter(({ feature, entry }) => entry.pi && feature.labels).slice(0, PANELS)
    .map((one) => ({ ...one, losses: piOf(one.feature, one.entry, page.group, page.weight), faded: farOf(one.feature)?.faded }))
    .filter(({ losses }) => losses).map((one) => ({ ...one, curve: tell(one.losses, base) }));
  byId("glance").hidden = panels.length < 2 || !finite(base);
  if (byId("glance").hidden) return byId("glance-panels").replaceChildren();
  const [low, high] = extent([of(base), ...panels.flatMap(({ curve, faded }) => Array.from(curve).filter((value, v) => finite(value) && !faded?.[v]))]);
  const y = (value) => Math.max(-4, Math.min(PANEL + 4, 6 + (PANEL - 12) * (1 - (value - low) / (high - low || 1))));
  byId("glance-panels").replaceChildren(...panels.map((one) => panelOf(page, one, y, of(base))));
}

function panelOf(page, { feature, f, losses, curve, faded }, y, now) {
  const axis = axisOf(feature), [start, end] = axis.words ? [0, 1] : axis.range;
  const sure = axis.shown.filter((v) => finite(losses[v]) && !faded?.[v]);
  const peak = sure.reduce((best, v) => (best === null || losses[v] > losses[best] ? v : best), null);
  const words = axis.words ? axis.shown.filter((v) => finite(losses[v])).sort((a, b) => feature.weights[b] - feature.weights[a]).slice(0, MOST_WORDS).sort((a, b) => a - b) : [];
  if (axis.words && peak !== null && !words.includes(peak)) words[words.length - 1] = peak;
  const x = (v) => (axis.words ? (100 * (words.indexOf(v) + 0.5)) / words.length : (100 * (axis.x[v] - start)) / (end - start || 1));
  const marks = [line("zero strong", 0, 100, y(now), y(now)), ...(axis.words ? words.map((v) => dotAt(x(v), y(curve[v]), faded?.[v])) : curveLines(axis, curve, faded, x, y)), ...footOf(page, feature, axis, words, x)];
  if (peak !== null) marks.push(dotAt(x(peak), y(curve[peak]), false, "peak"));
  const { text } = page.told[page.model];
  const said = peak === null ? "" : `most at ${axis.kind === "number" && axis.x[peak] !== axis.missing ? plain(Number(axis.x[peak].toPrecision(4))) : shortened(labelOf(axis, peak), 24)}: ${text(curve[peak])}`;
  return el("figure", {}, el("figcaption", {}, nameButton(page, feature.name), described(feature)),
    svg("svg", { class: "panel", height: PANEL + FOOT, "aria-hidden": "true" }, marks), quiet(said));
}

const dotAt = (x, y, faded, kind = "") => svg("circle", { class: `pfi mark ${faded ? "faded" : ""} ${kind}`, cx: `${x}%`, cy: y, r: kind ? 4 : 3 });

// Segments in percent of the width; a missing value is a dot.
function curveLines(axis, curve, faded, x, y) {
  const { joined, apart } = placesOf(axis, curve);
  const pale = (v, w) => faded?.[v] || faded?.[w];
  return [...joined.slice(1).map((v, k) => line(`pfi ${pale(joined[k], v) ? "faded" : ""}`, x(joined[k]), x(v), y(curve[joined[k]]), y(curve[v]))), ...apart.map((v) => dotAt(x(v), y(curve[v]), faded?.[v]))];
}

// How the values are distributed, under the curve.
function footOf(page, feature, axis, words, x) {
  const shares = axis.words ? words.map((v) => [x(v) - 40 / words.length, 80 / words.length, feature.weights[v]]) : binned(feature, x);
  const top = Math.max(...shares.map(([, , share]) => share), 1e-12);
  return shares.filter(([, , share]) => share > 0).map(([left, width, share]) => {
    const tall = Math.max(1, (FOOT - 4) * (share / top));
    return svg("rect", { class: "all", x: `${left}%`, width: `${width}%`, y: PANEL + FOOT - tall, height: tall });
  });
}

function binned(feature, x) {
  const sums = new Float64Array(PANEL_BINS);
  feature.weights.forEach((share, v) => { sums[Math.max(0, Math.min(PANEL_BINS - 1, Math.floor((x(v) / 100) * PANEL_BINS)))] += share; });
  return Array.from(sums, (share, b) => [(100 * b) / PANEL_BINS, 92 / PANEL_BINS, share]);
}
