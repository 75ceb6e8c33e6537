// Mean losses in the reader's unit, as results/plain_error.py defines it: roots of squared errors, the typical probability of
// the true class, a share of wrong answers, a multiple of the model's error. What adds up (shares, differences) is no such
// mean, and stays as it is. The losses themselves are in data-value, titles and CSV files.

function tellerOf({ loss: { told_as: kind } }, error) {
  const times = kind === "times" && error > 0;
  const of = {
    root: (loss) => Math.sqrt(Math.max(loss, 0)), typical: (loss) => Math.exp(-Math.max(loss, 0)), times: (loss) => (times ? loss / error : loss),
  }[kind] ?? ((loss) => loss);
  const shares = kind === "typical" || kind === "wrong";
  const text = (value, like) => (!finite(value) ? "–" : shares ? percent(value) : `${rounded(value, like)}${times ? "×" : ""}`);
  const falls = kind === "typical"; // a larger loss is a smaller probability
  const ends = ({ low, high }, base = 0) => [low, high].map((end) => of(base + end)).sort((a, b) => a - b);
  return {
    of, text, falls, ends, curve: (losses, base) => losses && Float64Array.from(losses, (loss) => of(base + loss)),
    between: (one, base = 0) => (finite(one.low) && finite(one.high) ? ends(one, base).map((end) => text(end, ends(one, base))).join(" to ") : ""),
  };
}

// Two digits of half the width of an interval, and at most three of its ends: no six digits beside an interval of 12%.
function rounded(value, ends) {
  const half = ends ? Math.abs(ends[1] - ends[0]) / 2 : NaN;
  if (!finite(value) || !(half > 0) || outOfSight(Math.abs(value))) return number(value, 3);
  const digit = (size) => Math.floor(Math.log10(size));
  const places = Math.min(1 - digit(half), 2 - digit(Math.max(...ends.map(Math.abs))));
  const decimals = Math.min(12, Math.max(0, places));
  const whole = places < 0 ? Math.round(value * 10 ** places) / 10 ** places : value;
  return withMinus(format({ minimumFractionDigits: decimals, maximumFractionDigits: decimals }).format(whole + 0));
}

// A mean loss as readers see it.
function told(page, name, loss, label, { m = page.model, base = 0, low, high } = {}) {
  const teller = page.told[m];
  const shown = output(name, loss, label);
  shown.textContent = teller.text(teller.of(base + loss), finite(low) && finite(high) ? teller.ends({ low, high }, base) : null);
  shown.title = `${label}: ${number(loss)} (${page.data.loss.title})`;
  return shown;
}

const intervalOf = (text) => (text ? `95%: ${text}` : "");

// Whether a difference from nothing is sure: by its interval, and where there is a test of all features, by that, too (`is_sure`).
const isSure = ({ low, high, p }) => (finite(p) ? p <= 0.05 && low > 0 : low > 0 || high < 0);
