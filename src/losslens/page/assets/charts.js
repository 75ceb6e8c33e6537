// Bokeh's figures: created empty by charts.py, which names their parts; filled and coloured here. Bokeh's own callbacks
// (CustomJS) need eval, which the page forbids, so this script listens to the events of its models.

const SIDES = ["pi", "pd"];
const DASHES = [[6, 3], [2, 2], [8, 3, 2, 3]];
const MOST_POINTS = 400; // of a curve: a figure has fewer pixels

// Filled before they are drawn for the first time: drawing empty figures first would cost a reader half a second.
// embed_items with nothing to embed is BokehJS's public way to a document that is not drawn yet.
async function makeCharts(page) {
  const { document: json, places } = JSON.parse(byId("charts").textContent);
  await Bokeh.embed.embed_items({ charts: json }, []);
  const figures = Bokeh.documents.at(-1);
  const get = (name) => figures.get_model_by_name(name);
  if (matchMedia("(pointer: coarse)").matches) {
    for (const side of SIDES) get(side).toolbar.active_drag = null; // a scrolling finger must not select
  }
  for (const side of SIDES) listen(page, get, side);
  return {
    show: () => Bokeh.embed.add_document_standalone(figures, document.body, places.map(byId)),
    draw: () => drawAll(page, get), mark: () => markRows(page, get), paint: () => paint(page, get),
  };
}

function listen(page, get, side) {
  const light = oncePerFrame((event) => page.light(event ? nearest(page, get, side, event) : null));
  const figure = get(side);
  figure.on_event("mousemove", (event) => light(event));
  figure.on_event("mouseleave", () => light(null));
  figure.on_event("tap", (event) => page.pick(nearest(page, get, side, event)));
  for (const name of [side, `${side}-rows`]) {
    get(name).on_event("selectiongeometry", (event) => {
      const { x0, x1 } = event.geometry;
      if (event.final && finite(x0)) page.brush(Math.min(x0, x1), Math.max(x0, x1));
    });
  }
}

// The row whose curve is nearest to the pointer, at the nearest value of the grid.
function nearest(page, get, side, { x, y }) {
  const { drawn, axis } = page.view[side];
  if (!drawn.length) return null;
  let at = 0;
  axis.shown.forEach((v, k) => { if (Math.abs(axis.x[v] - x) < Math.abs(axis.x[axis.shown[at]] - x)) at = k; });
  const v = axis.shown[at];
  let best = null, least = Infinity;
  for (const { row, curve } of drawn) {
    const away = Math.abs(curve[v] - y);
    if (away < least) { least = away; best = row; }
  }
  const range = get(side).y_range;
  return least < 0.08 * (range.end - range.start) ? best : null;
}

// Positions of values: numbers and dates at their value, categories one by one; missing values separately on the right.
function axisOf(feature) {
  const { kind, values } = feature;
  const labels = feature.labels ?? [];
  const words = WORDS.has(kind) || values === null;
  const g = labels.length;
  if (words) {
    const x = Array.from({ length: g }, (_, v) => v);
    return { words, x, shown: evenly(g), labels, range: [-0.6, g - 0.4], missing: null, kind: "words" };
  }
  const x = Array.from(values);
  const [low, high] = finiteExtent(x);
  const gap = (high - low || 1) * 0.06;
  const missing = x.some(Number.isNaN) ? high + 2 * gap : null;
  const range = [low - gap, (missing ?? high) + gap];
  return {
    words, x: x.map((value) => (Number.isNaN(value) ? missing : value)), shown: evenly(g), labels, range, missing,
    kind: kind === "date" ? "date" : "number",
  };
}

function evenly(g) {
  if (g <= MOST_POINTS) return Array.from({ length: g }, (_, v) => v);
  return Array.from({ length: MOST_POINTS }, (_, k) => Math.round((k * (g - 1)) / (MOST_POINTS - 1)));
}

// The line and the dots of a curve. Words have dots, and so has a missing value: nothing lies between.
function points(axis, curve) {
  const line = { x: [], y: [] }, dots = { x: [], y: [] };
  if (!curve) return { line, dots };
  let alone = curve.reduce((total, value) => total + Number(finite(value)), 0) === 1;
  for (const v of axis.shown) {
    const apart = axis.missing !== null && axis.x[v] === axis.missing;
    if (axis.words || apart || alone) { dots.x.push(axis.x[v]); dots.y.push(curve[v]); }
    if (apart) { line.x.push(NaN); line.y.push(NaN); } else { line.x.push(axis.x[v]); line.y.push(curve[v]); }
  }
  return { line, dots };
}

function drawAll(page, get) {
  for (const side of SIDES) {
    const view = page.view[side];
    byId(`side-${side}`).hidden = view.mean === null && !view.drawn.length;
    drawCurves(get, side, view);
    drawRows(page, get, side, view);
  }
  markRows(page, get);
}

function drawCurves(get, side, view) {
  const { axis } = view;
  Object.assign(get(`${side}-x`), { start: axis.range[0], end: axis.range[1] });
  const lines = view.drawn.map(({ curve }) => points(axis, curve).line);
  get(`${side}-curves`).data = { xs: lines.map((one) => one.x), ys: lines.map((one) => one.y) };
  const band = view.band ? [points(axis, view.band.low).line, points(axis, view.band.high).line] : null;
  const here = band ? band[0].x.map((x, k) => [x, band[0].y[k], band[1].y[k]]).filter(([x]) => finite(x)) : [];
  get(`${side}-band`).data = { x: here.map((p) => p[0]), low: here.map((p) => p[1]), high: here.map((p) => p[2]) };
  const { sure, faded } = partsOf(view.mean, view.faded);
  put(get, `${side}-mean`, axis, sure, true);
  put(get, `${side}-faded`, axis, faded, true);
  put(get, `${side}-all`, axis, view.all, false);
  drawOthers(get, side, view);
}

// There may be more models than colours: dashes distinguish them as well.
function drawOthers(get, side, { axis, others }) {
  const colour = colours();
  const there = others.map((curve, m) => ({ m, curve })).filter(({ curve }) => curve);
  const lines = there.map(({ curve }) => points(axis, curve).line);
  get(`${side}-others`).data = {
    xs: lines.map((one) => one.x), ys: lines.map((one) => one.y),
    colour: there.map(({ m }) => colour(`model${1 + (m % 4)}`)), dash: there.map(({ m }) => DASHES[m % DASHES.length]),
  };
}

function put(get, name, axis, curve, withDots) {
  const { line, dots } = points(axis, curve);
  get(name).data = line;
  if (withDots) get(`${name}-dots`).data = dots;
}

// The range of 98% of the drawn values.
function mostOf({ drawn, axis }) {
  const all = Float64Array.from(drawn.flatMap(({ curve }) => axis.shown.map((v) => curve[v])).filter(finite)).sort();
  return all.length ? [all[Math.floor(0.01 * (all.length - 1))], all[Math.ceil(0.99 * (all.length - 1))]] : [];
}

// The axis covers the mean, its band and most of the curves, and always the picked and the hovered row.
function frame(get, side, view, looked) {
  view.ends ??= mostOf(view); // once a view, not once a hover
  const more = [view.mean, view.all, view.band?.low, view.band?.high, ...view.others, ...looked];
  const [low, high] = extent([...view.ends, ...more.flatMap((curve) => (curve ? Array.from(curve).filter(finite) : []))]);
  if (!finite(low) || !finite(high)) return;
  const margin = 0.05 * (high - low) || 0.05 * Math.abs(high) || 1;
  const { y_range } = get(side);
  if (y_range.start !== low - margin) y_range.start = low - margin;
  if (y_range.end !== high + margin) y_range.end = high + margin;
}

function markRows(page, get) {
  for (const side of SIDES) {
    const view = page.view[side];
    const picked = page.picked === null ? null : view.curveOf(page.picked);
    const lit = page.lit === null ? null : view.curveOf(page.lit);
    put(get, `${side}-picked`, view.axis, picked, true);
    put(get, `${side}-lit`, view.axis, lit, true);
    frame(get, side, view, [picked]);
  }
}

function drawRows(page, get, side, { axis, bars, title }) {
  const name = `${side}-rows`;
  const top = Math.max(...bars.all.top, 1);
  get(`${name}-all`).data = bars.all;
  get(`${name}-group`).data = bars.group;
  Object.assign(get(`${name}-y`), { start: 0, end: top * 1.1 });
  const notes = axis.missing === null ? { x: [], y: [], text: [] } : { x: [axis.range[1]], y: [top * 1.08], text: ["missing ▸"] };
  get(`${name}-notes`).data = notes;
  for (const kind of ["number", "date", "words"]) get(`${name}-${kind}`).visible = axis.kind === kind;
  if (axis.words) nameTicks(get, name, axis);
  get(`${name}-title`).text = title;
}

function nameTicks(get, name, { labels, range }) {
  const width = (byId(`chart-${name}`).clientWidth || 500) - 80;
  const longest = Math.max(...labels.map((label) => label.length), 1);
  const each = width / (range[1] - range[0]);
  const lying = longest * 6.5 < each;
  const step = lying ? 1 : Math.ceil(14 / each);
  const ticks = labels.map((_, v) => v).filter((v) => v % step === 0);
  get(`${name}-ticks`).ticks = ticks;
  const axis = get(`${name}-words`);
  axis.major_label_overrides = new Map(ticks.map((v) => [v, shortened(labels[v])]));
  axis.major_label_orientation = lying ? "horizontal" : 0.9;
}

const shortened = (label, most = 18) => (label.length > most ? `${label.slice(0, most - 1)}…` : label);

// Colours are defined once, in the style sheet.
function colours() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(`--${name}`).trim();
}

function paint(page, get) {
  const colour = colours();
  for (const side of SIDES) {
    const main = colour(side === "pi" ? "pfi" : "pd");
    for (const name of [side, `${side}-rows`]) paintFigure(get, name, colour);
    get(`${side}-zero`).line_color = colour("ink-soft");
    stroke(get, `${side}-curves-of`, colour("curve"), Number(colour("curve-alpha")));
    get(`${side}-band-of`).glyph.fill_color = { value: main };
    stroke(get, `${side}-all-of`, colour("ink-soft"), 1);
    drawOthers(get, side, page.view[side]);
    stroke(get, `${side}-faded-of`, main, Number(colour("faded-alpha")));
    stroke(get, `${side}-faded-dots-of`, main, Number(colour("faded-alpha")));
    get(`${side}-faded-dots-of`).glyph.fill_color = { value: colour("paper") };
    for (const [part, name] of [["mean", main], ["picked", colour("picked")], ["lit", colour("lit")]]) {
      stroke(get, `${side}-${part}-of`, name, 1);
      stroke(get, `${side}-${part}-dots-of`, name, 1);
      get(`${side}-${part}-dots-of`).glyph.fill_color = { value: name };
    }
    for (const [part, name] of [["all", colour("bar")], ["group", main]]) {
      const { glyph } = get(`${side}-rows-${part}-of`);
      glyph.fill_color = { value: name };
      glyph.line_color = { value: colour("paper") };
    }
    get(`${side}-rows-notes-of`).glyph.text_color = { value: colour("ink-soft") };
  }
}

function stroke(get, name, colour, alpha) {
  const { glyph } = get(name);
  glyph.line_color = { value: colour };
  glyph.line_alpha = { value: alpha };
}

function paintFigure(get, name, colour) {
  const figure = get(name);
  const paper = colour("paper"), ink = colour("ink-soft"), rule = colour("rule");
  figure.setv({ background_fill_color: paper, border_fill_color: paper });
  get(`${name}-lines`).grid_line_color = rule;
  const axes = [get(`${name}-up`)];
  for (const kind of ["number", "date", "words"]) if (get(`${name}-${kind}`)) axes.push(get(`${name}-${kind}`));
  for (const axis of axes) {
    axis.setv({
      axis_line_color: rule, major_tick_line_color: rule, minor_tick_line_color: null,
      major_label_text_color: ink, axis_label_text_color: ink, major_label_text_font_size: "12px",
    });
  }
  const title = get(`${name}-title`);
  if (title) title.setv({ text_color: colour("ink"), text_font_size: "13px" });
}
