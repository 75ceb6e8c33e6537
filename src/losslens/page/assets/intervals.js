// Confidence intervals in the page: the jackknife of the library from sums of cells, in pure functions. Rows and donors
// each move an importance; what each moves is computed by leaving it out (losslens.uncertainty: leave_one_out,
// standard_errors). Constants and formulas are those of the library, and tests compare the two.

const LEAST_UNITS = 3; // rows with weight that a standard error needs
const COARSEST = 0.5; // error of an interval's width, as a share: with a larger one, none is shown
const FEW_ROWS = 10; // below, a standard error is itself a rough number

// Numerator and denominator of Lanczos' approximation (g = 7) of log gamma, for arguments above 0.
function logGamma(x) {
  const c = [0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
    12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7];
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x);
  const t = x + 6.5;
  let sum = c[0];
  for (let k = 1; k < 9; k++) sum += c[k] / (x - 1 + k);
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(sum);
}

// The regularised incomplete beta function, by Lentz' continued fraction.
function incompleteBeta(x, a, b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a);
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x)) / a;
  const tiny = 1e-300;
  const away = (value) => (Math.abs(value) < tiny ? tiny : value);
  let c = 1, d = 1 / away(1 - ((a + b) * x) / (a + 1)), f = d;
  for (let m = 1; m < 2000; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away(1 + even * d);
    c = away(1 + even / c);
    f *= c * d;
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away(1 + odd * d);
    c = away(1 + odd / c);
    const step = c * d;
    f *= step;
    if (Math.abs(step - 1) < 1e-15) break;
  }
  return front * f;
}

// P(T > t) of Student's t, t >= 0.
const studentTail = (t, freedom) => 0.5 * incompleteBeta(freedom / (freedom + t * t), freedom / 2, 0.5);

const QUANTILES = new Map();

// The quantile of Student's t that leaves so much in its upper tail, by bisection of its logarithm.
function studentQuantile(freedom, tail = 0.025) {
  const key = `${freedom} ${tail}`;
  if (!QUANTILES.has(key)) {
    let low = -20, high = 20;
    for (let k = 0; k < 80; k++) {
      const middle = (low + high) / 2;
      if (studentTail(Math.exp(middle), freedom) > tail) low = middle; else high = middle;
    }
    QUANTILES.set(key, Math.exp((low + high) / 2));
  }
  return QUANTILES.get(key);
}

const skewnessLimit = (t) => 3 * (Math.sqrt(t * t + 0.5) - t);

// The inverse of Hall's correction for skewness a.
function hall(t, a) {
  return Math.abs(a) < 1e-6 ? t : (3 / a) * (Math.cbrt(1 + a * (t - a / 6)) - 1);
}

// The quantile on the side of the skewness: the variance is estimated, and its error grows with the skewness.
function lengthened(t, skewness) {
  const limit = skewnessLimit(t), a = Math.min(limit, Math.abs(skewness));
  return t + (2 / 3) * (a * a / limit) ** 2 * (t ** 3 + t);
}

// How far an interval reaches down and up, in standard errors: Student's quantile, and on the side of the skewness the
// farther of Hall's and Student's with the lengthened one.
function reach(t, skewness) {
  const longer = lengthened(t, skewness), limit = skewnessLimit(longer);
  const a = Math.min(limit, Math.max(-limit, skewness));
  return [skewness < 0 ? Math.max(longer, hall(longer, a)) : t, skewness > 0 ? Math.max(longer, -hall(-longer, a)) : t];
}

// So many rows of equal weight would tell as much.
function effectiveUnits(weights) {
  let sum = 0, squares = 0, least = Infinity, most = 0, counted = 0;
  for (const w of weights) {
    if (!(w > 0)) continue;
    counted++;
    sum += w;
    squares += w * w;
    least = Math.min(least, w);
    most = Math.max(most, w);
  }
  return !counted || most - least <= 1e-12 * most ? counted : (sum * sum) / squares;
}

// An interval from what each row moves: squares sum to the variance, cubes to the third moment.
function intervalFrom(estimate, moved, units) {
  let variance = 0, third = 0;
  for (const value of moved) {
    variance += value * value;
    third += value * value * value;
  }
  const error = Math.sqrt(variance);
  const skewness = variance > 0 ? third / variance ** 1.5 : 0;
  const freedom = Math.max(units - 1, 1);
  const t = studentQuantile(freedom);
  const [down, up] = reach(t, skewness);
  return {
    low: estimate - error * down, high: estimate + error * up, stdError: error,
    caution: [fewRows(units), Math.abs(skewness) > skewnessLimit(t) ? "A few rows decide this number: its interval may be too narrow." : ""].filter(Boolean).join(" "),
  };
}

const fewRows = (units) => (units < FEW_ROWS
  ? `The effective number of rows is ${Number(units.toPrecision(3))}: with fewer than ${FEW_ROWS}, an interval is rough.` : "");

// Changes by leaving out each unit, about their mean and scaled, added to `moved`.
function addRole(moved, changes, counts) {
  let sum = 0, units = 0;
  for (let i = 0; i < changes.length; i++) if (counts(i)) { sum += changes[i]; units++; }
  const factor = Math.sqrt((units - 1) / units);
  for (let i = 0; i < changes.length; i++) if (counts(i)) moved[i] += factor * (changes[i] - sum / units);
}

// The mean of values over a group, with its interval; null where too few rows count.
function meanWithInterval(values, rows, weight) {
  const kept = Array.from(rows).filter((i) => !weight || weight[i] > 0);
  if (!kept.length) return { value: NaN, low: NaN, high: NaN, caution: "" };
  const w = kept.map((i) => (weight ? weight[i] : 1));
  const total = w.reduce((sum, one) => sum + one, 0);
  const mean = kept.reduce((sum, i, k) => sum + w[k] * values[i], 0) / total;
  if (kept.length < LEAST_UNITS) return { value: mean, low: NaN, high: NaN, caution: "" };
  const moved = new Float64Array(kept.length);
  addRole(moved, kept.map((i, k) => (w[k] * (values[i] - mean)) / (total - w[k])), () => true);
  return { value: mean, ...intervalFrom(mean, moved, effectiveUnits(w)) };
}

// Leaving out row i loses its cells as an observation and as a donor. Arrays are of all rows of the sample, whose
// weights sum to one: `mass` of observations (0 outside of the group), `local` importances, `caused` as a donor.
function pfiInterval(pfi, weight, mass, local, caused) {
  const n = weight.length;
  let total = 0, own = 0, squares = 0;
  for (let i = 0; i < n; i++) {
    total += mass[i];
    own += mass[i] * weight[i];
    squares += mass[i] * mass[i];
  }
  const unbiased = pfi / (1 - own / total);
  const asRow = new Float64Array(n), asDonor = new Float64Array(n);
  const whole = total - own;
  for (let i = 0; i < n; i++) {
    const w = weight[i], lent = w * total, itself = w * mass[i];
    const inside = own - mass[i] * w - w * squares + itself * w;
    let left = total - mass[i] - lent + itself - (w < 1 ? inside / (1 - w) : 0);
    if (!(left > 1e-12 * whole)) left = NaN;
    const lost = unbiased * (whole - left);
    const others = mass[i] + lent - 2 * itself;
    const part = others > 1e-12 * whole ? (mass[i] - itself) / others : 0;
    asRow[i] = (mass[i] * (mass[i] > 0 ? local[i] : 0) - lost * part) / left;
    asDonor[i] = (lent * caused[i] - lost * (1 - part)) / left;
  }
  const moved = new Float64Array(n);
  addRole(moved, asRow, (i) => mass[i] > 0);
  addRole(moved, asDonor, (i) => weight[i] > 0);
  const found = intervalFrom(unbiased, moved, effectiveUnits(mass));
  const share = 1 - own / total; // the interval is about the mean over pairs of different rows: outward to that of all
  return { ...found, unbiased, low: Math.min(found.low, share * found.low), high: Math.max(found.high, share * found.high) };
}

// Low-rank cells give the width of an interval with an error, as a share of it: measured for donors from all rows; for
// those of the group it falls with its size. null: the interval is exact.
function widthError(entry, { rows, donors }, { low, high }) {
  const { cells } = entry;
  if (!cells || isWhole(cells)) return null;
  if (donors === "given") return cells.width_off ?? null;
  return finite(cells.width_error_times_n) ? cells.width_error_times_n / rows.length / (high - low) : null;
}

// Computed on first access: a reader looks at few of many features.
function laterInterval(feature, entry, group, weight) {
  let found = null;
  const get = () => (found ??= groupInterval(feature, entry, group, weight));
  return { get low() { return get().low; }, get high() { return get().high; }, get caution() { return get().caution; } };
}

// The error of a group with its interval, of one model.
function errorInterval(data, m, rows, weight) {
  const found = meanWithInterval(data.table.models[m].loss, rows, weight);
  return { ...found, low: finite(data.loss.least) ? Math.max(found.low, data.loss.least) : found.low };
}

// The PFI of a group with its interval, in both ways; why there is none is said by `whyNoInterval`.
function groupInterval(feature, entry, group, weight) {
  const why = whyNoInterval(feature, entry, group, countedRows(group.rows, weight));
  if (why) return { low: NaN, high: NaN, caution: "", off: null, why };
  const found = jackknifed(feature, entry, group, weight);
  const off = widthError(entry, group, found);
  if (off === null || off <= COARSEST) return { ...found, off, why: "" };
  return { low: NaN, high: NaN, caution: "", off, why: "No interval: the feature varies so little in this subgroup that the page's approximation of its curves is too coarse." };
}

function jackknifed(feature, entry, group, weight) {
  const { rows } = group;
  const curve = givenPi(entry, rows, weight);
  const { own } = feature;
  const n = own.length;
  if (group.donors === "given") {
    const even = weight ?? new Float64Array(n).fill(1 / n);
    const sum = even.reduce((a, b) => a + b, 0);
    const all = even.map((w) => w / sum);
    const mass = new Float64Array(n);
    for (const i of rows) mass[i] = all[i];
    return pfiInterval(meanOf(entry.local, rows, weight), all, mass, entry.local, Float64Array.from(own, (v) => curve[v]));
  }
  const total = totalWeight(rows, weight);
  const mine = Float64Array.from(rows, (i) => (weight ? weight[i] : 1) / total);
  const shares = donorShares(own, curve.length, rows, weight);
  const local = localsWithin(entry, rows, shares);
  let pfi = 0;
  for (let v = 0; v < curve.length; v++) pfi += shares[v] * curve[v];
  return pfiInterval(pfi, mine, mine, local, Float64Array.from(rows, (i) => curve[own[i]]));
}

// Importance of each row of a group with donors of the group, whose shares of the values are given.
function localsWithin(entry, rows, shares) {
  const { cells } = entry;
  const g = shares.length;
  if (isWhole(cells)) {
    return Float64Array.from(rows, (i) => {
      let sum = 0;
      for (let v = 0; v < g; v++) sum += shares[v] * cells.values[i * g + v];
      return sum;
    });
  }
  const rank = cells.scale.length;
  let level = -entry.pfi;
  for (let v = 0; v < g; v++) level += shares[v] * entry.pi[v];
  const factor = Float64Array.from(cells.scale, (scale, r) => {
    let sum = 0;
    for (let v = 0; v < g; v++) sum += shares[v] * cells.column[r * g + v];
    return scale * sum;
  });
  return Float64Array.from(rows, (i) => {
    let sum = entry.local[i] + level;
    for (let r = 0; r < rank; r++) sum += cells.row[i * rank + r] * factor[r];
    return sum;
  });
}

const countedRows = (rows, weight) => (weight ? rows.filter((i) => weight[i] > 0) : rows).length;

function whyNoInterval(feature, entry, group, counted) {
  if (counted < LEAST_UNITS) return `No interval: it needs at least ${LEAST_UNITS} rows.`;
  if (group.sampled && group.donors === "given") return "No interval of a subgroup: its values come from all rows, and this file holds some of them.";
  if (isSampled(entry)) return "No interval of a subgroup: donors were sampled for each row.";
  if (feature.kind === "group") return "No interval of a subgroup: the feature is a group of columns, whose cells are not in the page.";
  if (entry.cells === null || feature.own == null) return "No interval of a subgroup: this model's cells are not in the page.";
  return "";
}
