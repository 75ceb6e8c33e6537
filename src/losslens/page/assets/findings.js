// Findings on the open feature, of the first model: its regions, and how far its replaced rows are from real ones.

const farOf = (feature) => (feature.extrapolation?.warns ? feature.extrapolation : null);

// Where most replaced rows are unlike real ones, curves are pale and dashed, and dots pale. A segment between two values
// is faded where one of its ends is.
function partsOf(curve, faded) {
  if (!curve || !faded?.some(Boolean)) return { sure: curve, faded: null };
  const beside = (v) => faded[v] || faded[v - 1] || faded[v + 1];
  const keep = (test) => Float64Array.from(curve, (value, v) => (test(v) ? value : NaN));
  return { sure: keep((v) => !faded[v]), faded: keep(beside) };
}

const isFaded = (page, side) => Boolean(page.view[side].mean && page.view[side].faded?.some(Boolean));

function drawFindings(page) {
  const feature = page.data.features[page.open];
  const far = farOf(feature);
  byId("feature-far").hidden = !far;
  byId("feature-far-words").textContent = far ? `${far.sentence}${far.faded?.some(Boolean) ? " Curves are faded where most rows are of this kind." : ""}` : "";
  const { caution } = feature.models[page.model];
  byId("feature-caution").hidden = !caution;
  byId("feature-caution-words").textContent = caution;
  const regions = page.model === 0 ? feature.regions : null;
  byId("regions").hidden = !regions;
  byId("regions-body").replaceChildren(...(regions ? regions.tree.map((one, k) => regionLine(page, one, k)) : []));
  byId("regions-words").textContent = regions ? regions.sentences.join(" ") : "";
}

function regionLine(page, region, k) {
  const { error: base } = region, { of, text, between: ends } = page.told[0];
  const rule = region.rule || "all rows";
  return el("tr", {},
    el("th", { scope: "row", class: "rule", style: `padding-left: ${0.5 + region.depth}em` }, rule),
    el("td", { class: "number" }, count(region.n)),
    el("td", { class: "number" }, text(of(base))),
    el("td", { class: "number" }, told(page, `region-${k}`, region.pfi, `PFI where ${rule}`, { ...region, base, m: 0 })),
    el("td", { class: "number" }, ends(region, base) || "–"),
    el("td", {}, region.contrast || "–"),
    el("td", { class: "number" }, finite(region.p) ? chance(region.p) : "–"));
}

const between = ({ low, high }) => (finite(low) && finite(high) ? `${rounded(low, [low, high])} to ${rounded(high, [low, high])}` : "–");
const chance = (p) => (p < 0.0001 ? "< 0.0001" : number(p, 2));
