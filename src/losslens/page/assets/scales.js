// Where the axis of a chart ends, what lies beyond, and its ticks: of Bokeh's figures and of the tables of categories.

const MARGIN = 0.08; // of the axis, on either side
const FARTHEST = 1; // a band may go this many times the height of the means beyond them; more is cut off, and said
const RARE = 0.1; // probabilities that stay below it have an axis from 0 to it, others from 0 to 1
const LEAST_PART = 0.1; // of the predictions of most single rows: a flat PD is not magnified to look steep

const finiteOf = (curves) => curves.flatMap((curve) => (curve ? Array.from(curve).filter(finite) : []));

// The axis follows the means of the models with their bands: single rows may go beyond it, unless all of them are asked
// for, and the picked one.
function rangeOf(view, whole, picked = null) {
  const means = [view.mean, view.all, ...view.others.map(({ curve }) => curve)];
  if (whole || !finiteOf(means).length) means.push(...view.drawn.map(({ curve }) => curve), picked);
  let [low, high] = extent([...finiteOf(means), ...(view.now === null ? [] : [view.now])]);
  if (view.probability) return [-0.02, 1.02].map((end) => end * (high < RARE ? RARE : 1));
  if (!finite(low) || !finite(high)) return [0, 1];
  const reach = FARTHEST * (high - low || Math.abs(high) || 1);
  const [least, most] = extent(finiteOf(bandsOf(view).flatMap((band) => [band.low, band.high])));
  if (whole || least < low) low = Math.min(low, whole ? least : Math.max(least, low - reach));
  if (whole || most > high) high = Math.max(high, whole ? most : Math.min(most, high + reach));
  if (view.now === null) [low, high] = widened(low, high, LEAST_PART * spreadOf(view));
  const margin = MARGIN * (high - low) || MARGIN * Math.abs(high) || 1;
  return [low - margin, high + margin];
}

const bandsOf = (view) => [view.band, ...view.others.map(({ band }) => band)].filter(Boolean);

function widened(low, high, least) {
  const more = (least - (high - low)) / 2;
  return more > 0 ? [low - more, high + more] : [low, high];
}

// Of 90% of the values of single rows.
function spreadOf(view) {
  view.spread ??= (() => {
    const all = Float64Array.from(view.drawn.flatMap(({ curve }) => view.axis.shown.map((v) => curve[v])).filter(finite)).sort();
    return all.length ? all[Math.ceil(0.95 * (all.length - 1))] - all[Math.floor(0.05 * (all.length - 1))] : 0;
  })();
  return view.spread;
}

// What the chart does not show: how many of the drawn rows leave it, and whether the picked one and a band do.
function beyond(view, [low, high], picked) {
  const { shown, x, missing } = view.axis;
  const out = (curve, places) => Boolean(curve) && places.some((v) => curve[v] < low || curve[v] > high);
  const leaves = (curve) => out(curve, shown);
  const lined = missing === null ? shown : shown.filter((v) => x[v] !== missing); // single rows have no dot there
  return {
    rows: view.drawn.filter(({ curve }) => out(curve, lined)).length, drawn: view.drawn.length, picked: leaves(picked),
    band: bandsOf(view).some((band) => leaves(band.low) || leaves(band.high)),
  };
}

function beyondWords({ rows, drawn, picked, band }, name) {
  const who = [];
  if (picked) who.push(`row ${name}`);
  if (rows) who.push(rows === drawn ? (rows === 1 ? "the row drawn" : `all ${count(rows)} rows drawn`) : `${count(rows)} of the ${count(drawn)} rows drawn`);
  if (band) who.push("the 95% band");
  const one = who.length === 1 && (picked || band || rows === 1);
  return who.length ? capital(`${listed(who)} ${one ? "goes" : "go"} beyond the chart.`) : "";
}

// About so many round numbers between two.
function ticksOf([low, high], about) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((one) => one * power >= 0.7 * rough);
  const ticks = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++) ticks.push(tidy(k * step, step));
  return ticks;
}

const tickText = (value) => (Math.abs(value) >= 1e6 ? withMinus(format({ notation: "compact", maximumSignificantDigits: 4 }).format(value)) : plain(value));

// As many as have room for their text.
function roomyTicks(range, pixels) {
  for (const about of [5, 4, 3]) {
    const ticks = ticksOf(range, about);
    if (ticks.reduce((sum, value) => sum + 7 * tickText(value).length + 8, 0) < pixels) return ticks;
  }
  return ticksOf(range, 2);
}
