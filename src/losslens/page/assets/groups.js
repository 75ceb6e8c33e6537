// Numbers of a subgroup, in pure functions: rows in, numbers out, independent of the page.
// given: rows of the group, donors from all rows. subset: rows and donors of the group.

const isWhole = (cells) => cells !== null && cells.kind === "whole";

function totalWeight(rows, weight) {
  let total = 0;
  for (const i of rows) total += weight ? weight[i] : 1;
  return total;
}

function meanOf(values, rows, weight) {
  let sum = 0;
  for (const i of rows) sum += values[i] * (weight ? weight[i] : 1);
  return sum / totalWeight(rows, weight);
}

// The mean row of a matrix (n, width) over the group.
function meanRow(matrix, width, rows, weight) {
  const sums = new Float64Array(width);
  for (const i of rows) {
    const w = weight ? weight[i] : 1;
    for (let k = 0, at = i * width; k < width; k++, at++) sums[k] += w * matrix[at];
  }
  const total = totalWeight(rows, weight);
  return sums.map((sum) => sum / total);
}

// A low-rank curve of one row, or its mean over a group: level + curve - mean + sum over r of row_r scale_r column_rv.
function lowRankCurve({ scale, column }, level, mean, curve, row) {
  const g = curve.length;
  const found = new Float64Array(g);
  for (let v = 0; v < g; v++) found[v] = level + curve[v] - mean;
  for (let r = 0; r < scale.length; r++) {
    const factor = row[r] * scale[r];
    for (let v = 0; v < g; v++) found[v] += factor * column[r * g + v];
  }
  return found;
}

// ICI and ICE curves alike: all of them, or a low-rank form around their mean curve. The levels of rows are the means
// of their curves: of ICI the local importances.
const iciOf = (entry) => entry.cells && { form: entry.cells, level: entry.local, mean: entry.pfi, curve: entry.pi };
const iceOf = (entry) => entry.ice && { form: entry.ice, level: entry.ice.level, mean: entry.ice.mean, curve: entry.pd };

function curveOf(curves, i) {
  if (!curves) return null;
  const { form, level, mean, curve } = curves;
  const width = isWhole(form) ? curve.length : form.scale.length;
  const part = (isWhole(form) ? form.values : form.row).subarray(i * width, (i + 1) * width);
  return isWhole(form) ? part : lowRankCurve(form, level[i], mean, curve, part);
}

function meanCurve(curves, rows, weight) {
  if (!curves || !rows.length) return null;
  const { form, level, mean, curve } = curves;
  if (isWhole(form)) return meanRow(form.values, curve.length, rows, weight);
  return lowRankCurve(form, meanOf(level, rows, weight), mean, curve, meanRow(form.row, form.scale.length, rows, weight));
}

const curveOfRow = (entry, i) => curveOf(iciOf(entry), i);
const iceOfRow = (entry, i) => curveOf(iceOf(entry), i);

function givenPfi(entry, rows, weight) {
  return rows.length ? meanOf(entry.local, rows, weight) : NaN;
}

const givenPi = (entry, rows, weight) => meanCurve(iciOf(entry), rows, weight);

// PD of a group: the mean of the ICE curves of its rows.
const pdOf = (entry, effect, group, weight) => (group.allRows ? effect.pd : effect.turn(meanCurve(iceOf(entry), group.rows, weight)));

// PD, its band, and how the ICE curves of the shown class become those of class k: of two classes, one is known from the
// other; of more, single rows have curves of the shown class only.
function effectOf(entry, target, k) {
  const asIs = { pd: entry.pd, low: entry.pd_low, high: entry.pd_high, turn: (curve) => curve };
  if (!target.classes || k === target.shown) return asIs;
  if (target.classes.length > 2) return { pd: entry.pd_classes?.[k] ?? null, low: null, high: null, turn: () => null };
  const whole = target.reads === "scores" ? 0 : 1;
  const turn = (curve) => curve && Float64Array.from(curve, (value) => whole - value);
  return { pd: turn(entry.pd), low: turn(entry.pd_high), high: turn(entry.pd_low), turn };
}

// Which share of the group's weight lies at each value of the grid.
function donorShares(own, g, rows, weight) {
  const shares = new Float64Array(g);
  for (const i of rows) shares[own[i]] += weight ? weight[i] : 1;
  const total = totalWeight(rows, weight);
  return shares.map((share) => share / total);
}

function subsetOf(feature, entry, rows, weight) {
  const curve = givenPi(entry, rows, weight);
  if (curve === null || feature.own === null) return { pfi: NaN, pi: null };
  const shares = donorShares(feature.own, curve.length, rows, weight);
  let pfi = 0;
  for (let v = 0; v < curve.length; v++) pfi += shares[v] * curve[v];
  return { pfi, pi: curve.map((value, v) => (shares[v] > 0 ? value : NaN)) };
}

// Whether an entry's numbers come from sampled pairs of rows.
const isSampled = (entry) => entry.exact === false;

// The error of low-rank cells for a group of so many rows; null where the page holds all cells or none. The error
// averages out over rows and over donors: that of a number falls as 1 / rows, that of a curve, which has no mean over
// donors, as 1 / root of rows.
function errorOf(entry, rows) {
  const { cells } = entry;
  if (cells === null || isWhole(cells)) return null;
  return finite(cells.error_times_n) ? cells.error_times_n / rows : cells.error;
}

function curveErrorOf(entry, rows) {
  const { cells } = entry;
  if (cells === null || isWhole(cells)) return null;
  return finite(cells.pi_error_times_root_n) ? cells.pi_error_times_root_n / Math.sqrt(rows) : cells.error;
}

// The same for PD, by the errors measured on groups of about as many rows and more; for smaller groups than any of them
// it grows as 1 / root of rows. Where all ICE curves are in the page, they are rounded to 16 bits.
function pdErrorOf(entry, rows) {
  const { ice } = entry;
  if (!ice) return null;
  if (!ice.measured) return ice.error;
  const [least, error] = ice.measured.findLast(([size]) => size <= rows) ?? ice.measured[0];
  return rows < least ? error * Math.sqrt(least / rows) : error;
}

// The PFI of a feature for a group; of all rows it is the library's number.
function pfiOf(feature, entry, group, weight) {
  if (group.allRows) return { pfi: entry.pfi, error: null, ends: entry };
  const ends = laterInterval(feature, entry, group, weight);
  if (group.donors === "given") return { pfi: givenPfi(entry, group.rows, weight), error: null, ends };
  const { pfi } = subsetOf(feature, entry, group.rows, weight);
  return { pfi, error: finite(pfi) ? errorOf(entry, group.rows.length) : null, about: isSampled(entry) && finite(pfi), ends };
}

// The PFI of features that are replaced together: exact with donors from all rows. The page holds none of their cells.
function jointOf(block, { allRows, rows, donors }, weight) {
  if (allRows) return { pfi: block.pfi, ends: { low: block.low, high: block.high, p: block.p_zero } };
  return { pfi: donors === "given" ? givenPfi(block, rows, weight) : NaN, ends: { low: NaN, high: NaN } };
}

function piOf(feature, entry, group, weight) {
  if (group.allRows) return entry.pi;
  return group.donors === "given" ? givenPi(entry, group.rows, weight) : subsetOf(feature, entry, group.rows, weight).pi;
}

// At most so many rows, evenly spaced along their values, always with the smallest and the largest.
function thinned(rows, values, most) {
  const order = Array.from(rows).sort((a, b) => values[a] - values[b]);
  if (order.length <= most) return order;
  return Array.from({ length: most }, (_, k) => order[Math.round((k * (order.length - 1)) / (most - 1))]);
}
