// Where the axis of a chart ends, what lies beyond, and its ticks: of Bokeh's figures and of the tables of categories.

const MARGIN = 0.08; // of the axis, on either side
const FARTHEST = 1; // a band may go this many times the height of the means beyond them; more is cut off, and said
const LEAST_PART = 0.1; // of the predictions of most single rows: a flat PD is not magnified to look steep

const finiteOf = (curves) => curves.flatMap((curve) => (curve ? Array.from(curve).filter(finite) : []));

// The axis follows the means of the models with their bands, and a picked row; single rows may go beyond it, unless all
// are asked for.
function rangeOf(view, whole, picked = null) {
  const means = [view.mean, view.all, ...view.others.map(({ curve }) => curve)];
  if (whole || !finiteOf(means).length) means.push(...view.drawn.map(({ curve }) => curve));
  let [low, high] = extent([...finiteOf([...means, picked]), ...(view.zero ? [0] : [])]);
  if (!finite(low) || !finite(high)) return [0, 1];
  const reach = FARTHEST * (high - low || Math.abs(high) || 1);
  const [least, most] = extent(finiteOf(bandsOf(view).flatMap((band) => [band.low, band.high])));
  if (whole || least < low) low = Math.min(low, whole ? least : Math.max(least, low - reach));
  if (whole || most > high) high = Math.max(high, whole ? most : Math.min(most, high + reach));
  if (!view.zero) [low, high] = widened(low, high, LEAST_PART * spreadOf(view));
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

// What the chart does not show: how many of the drawn rows leave it, and whether a band does.
function beyond(view, [low, high]) {
  const out = (value) => value < low || value > high;
  const rows = view.drawn.filter(({ curve }) => view.axis.shown.some((v) => out(curve[v]))).length;
  const band = bandsOf(view).some((one) => view.axis.shown.some((v) => out(one.low[v]) || out(one.high[v])));
  return { rows, band };
}

function beyondWords({ rows, band }, drawn) {
  const who = rows === drawn ? (rows === 1 ? "The row drawn" : `All ${count(rows)} rows drawn`) : `${count(rows)} of the ${count(drawn)} rows drawn`;
  const goes = rows === 1 ? "goes" : "go";
  if (rows) return `${who} ${goes} beyond the chart${band ? ", and so does the band" : ""}.`;
  return band ? "The band goes beyond the chart." : "";
}

// About so many round numbers between two.
function ticksOf([low, high], about = 5) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((one) => one * power >= 0.7 * rough);
  const ticks = [];
  for (let k = Math.ceil(low / step); k * step <= high; k++) ticks.push(tidy(k * step, step));
  return ticks;
}

const tickText = (value) => (Math.abs(value) >= 1e6 ? withMinus(format({ notation: "compact", maximumSignificantDigits: 4 }).format(value)) : plain(value));
