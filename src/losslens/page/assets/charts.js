// Bokeh's figures, of numbers and dates: created empty by charts.py, which names their parts; filled and coloured here.
// Bokeh's own callbacks (CustomJS) need eval, which the page forbids, so this script listens to the events of its models.

const SIDES = ["pi", "pd"];
const DASHES = [[6, 3], [2, 2], [8, 3, 2, 3]];
const MOST_POINTS = 400; // of a curve: a figure has fewer pixels
const FEW = 30; // values that are shown as dots on their line
const WIDE = 0.06; // of the axis: a gap between values of a subgroup that a line does not just pass over
const NARROW = 450; // pixels: fewer dates have room
const KINDS_OF_AXES = ["number", "date"];

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
  for (const side of SIDES) {
    listen(page, get, side);
    // Not major_label_overrides: Bokeh 3.10 removes the labels of earlier ticks again with every change, and warns.
    get(`${side}-up`).formatter.doFormat = (ticks) => ticks.map(tickText);
  }
  return {
    show: () => Bokeh.embed.add_document_standalone(figures, document.body, places.map(byId)),
    draw: () => drawAll(page, get), mark: () => markRows(page, get), paint: () => paint(page, get),
  };
}

function listen(page, get, side) {
  const light = oncePerFrame((event) => {
    const row = event ? nearest(page, get, side, event) : null;
    page.light(row);
    tip(page, side, row, event);
  });
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

function nearestValue(axis, x) {
  let at = axis.shown[0];
  for (const v of axis.shown) if (Math.abs(axis.x[v] - x) < Math.abs(axis.x[at] - x)) at = v;
  return at;
}

// The row whose curve is nearest to the pointer, at the nearest value of the grid.
function nearest(page, get, side, { x, y }) {
  const view = page.view[side];
  const { start, end } = get(side).y_range;
  return nearestRow(view, nearestValue(view.axis, x), y, 0.08 * (end - start));
}

function nearestRow({ drawn }, v, y, reach) {
  let best = null, least = reach;
  for (const { row, curve } of drawn) {
    const away = Math.abs(curve[v] - y);
    if (away < least) { least = away; best = row; }
  }
  return best;
}

// Beside the pointer: which row it is at, and its number there. The card tells the rest.
function tip(page, side, row, event) {
  const here = byId(`tip-${side}`);
  here.hidden = row === null;
  if (row === null) return;
  const { axis, curveOf } = page.view[side];
  const v = event.value ?? nearestValue(axis, event.x);
  here.textContent = `row ${page.rowName(row)} at ${shortened(axis.words ? nameOf(axis.labels)(v) : labelOf(axis, v), 40)}: ${number(curveOf(row)[v])}`;
  const { clientWidth } = here.parentElement;
  here.style.left = `${Math.max(0, Math.min(event.sx + 14, clientWidth - here.offsetWidth - 4))}px`;
  here.style.top = `${Math.max(0, event.sy - 34)}px`;
}

// Positions of values: numbers and dates at their value, missing ones separately on the right; categories one by one.
function axisOf(feature) {
  const { kind, values } = feature;
  const labels = feature.labels ?? [];
  const g = labels.length;
  if (WORDS.has(kind) || values === null) {
    const each = Array.from({ length: g }, (_, v) => v);
    return { words: true, x: each, shown: each, labels, missing: null, kind: "words" };
  }
  const x = Array.from(values);
  const [low, high] = finiteExtent(x);
  const gap = (high - low || 1) * 0.06;
  const missing = x.some(Number.isNaN) ? high + 2 * gap : null;
  return {
    words: false, x: x.map((value) => (Number.isNaN(value) ? missing : value)), shown: evenly(g), labels, missing,
    range: [low - gap, (missing ?? high) + gap], few: g <= FEW, whole: kind === "integer", kind: kind === "date" ? "date" : "number",
  };
}

function evenly(g) {
  if (g <= MOST_POINTS) return Array.from({ length: g }, (_, v) => v);
  return Array.from({ length: MOST_POINTS }, (_, k) => Math.round((k * (g - 1)) / (MOST_POINTS - 1)));
}

// The places of a curve that are joined by a line, and the one beside: of missing values.
function placesOf(axis, curve) {
  const there = curve ? axis.shown.filter((v) => finite(curve[v])) : [];
  const apart = (v) => axis.missing !== null && axis.x[v] === axis.missing;
  return { joined: there.filter((v) => !apart(v)), apart: there.filter(apart) };
}

const at = (axis, curve, places) => ({ x: places.map((v) => axis.x[v]), y: places.map((v) => curve[v]) });

// Values without a number (no row of the subgroup has them) are passed over. Where that would join far points, the
// line stops, and a thin dotted one, the bridge, leads on.
function linesOf(axis, curve, faded = null) {
  const { joined, apart } = placesOf(axis, curve);
  const parts = partsOf(joined.map((v) => curve[v]), faded && joined.map((v) => faded[v]));
  const lines = { sure: { x: [], y: [] }, faded: { x: [], y: [] }, bridge: { x: [], y: [] } };
  const push = (line, x, y) => { line.x.push(x); line.y.push(y); };
  joined.forEach((v, k) => {
    const before = joined[k - 1];
    if (isGap(axis, before, v)) {
      for (const one of [before, v]) push(lines.bridge, axis.x[one], curve[one]);
      for (const line of Object.values(lines)) push(line, NaN, NaN);
    }
    push(lines.sure, axis.x[v], parts.sure[k]);
    if (parts.faded) push(lines.faded, axis.x[v], parts.faded[k]);
  });
  const dots = axis.few || joined.length <= 1 || hasGaps(axis, curve) && joined.length <= FEW ? [...joined, ...apart] : apart;
  const [sure, pale] = [dots.filter((v) => !faded?.[v]), dots.filter((v) => faded?.[v])];
  return { ...lines, dots: at(axis, curve, sure), fadedDots: at(axis, curve, pale) };
}

function isGap(axis, a, b) {
  if (a === undefined || axis.shown.indexOf(b) - axis.shown.indexOf(a) < 2) return false;
  return Math.abs(axis.x[b] - axis.x[a]) > WIDE * (axis.range[1] - axis.range[0]);
}

function hasGaps(axis, curve) {
  return Boolean(curve) && axis.shown.some((v) => !finite(curve[v]));
}

function drawAll(page, get) {
  const { words } = page.view.pi.axis;
  for (const side of SIDES) {
    const view = page.view[side];
    byId(`side-${side}`).hidden = !isShown(view);
    byId(`tip-${side}`).hidden = true;
    for (const id of [`chart-${side}`, `chart-${side}-rows`]) byId(id).hidden = words;
    byId(`categories-${side}`).hidden = !words;
    if (!words) {
      drawCurves(get, side, view);
      drawRows(get, side, view);
    }
  }
  markRows(page, get);
}

// Whether there is anything to draw.
const isShown = (view) => view.mean !== null || view.drawn.length > 0 || (view.onlyMean && view.all !== null);

function drawCurves(get, side, view) {
  const { axis } = view;
  Object.assign(get(`${side}-x`), { start: axis.range[0], end: axis.range[1] });
  const lines = view.drawn.map(({ curve }) => at(axis, curve, placesOf(axis, curve).joined));
  get(`${side}-curves`).data = { xs: lines.map((one) => one.x), ys: lines.map((one) => one.y) };
  const { sure, faded, bridge, dots, fadedDots } = linesOf(axis, view.mean, view.faded);
  get(`${side}-mean`).data = sure;
  get(`${side}-mean-dots`).data = dots;
  get(`${side}-faded`).data = faded;
  get(`${side}-faded-dots`).data = fadedDots;
  get(`${side}-bridge`).data = bridge;
  get(`${side}-all`).data = linesOf(axis, view.all).sure;
  drawModels(get, side, view);
  paintMean(get, side, colours(), colours()(inkOf(side, view.model)));
  get(`${side}-up`).axis_label = shortened(view.unit, 40);
  get(`${side}-zero`).location = view.now ?? 0;
}

// The bands of all models, and the means of the others. There may be more models than colours: dashes distinguish them
// as well.
function drawModels(get, side, { axis, model, band, others }) {
  const colour = colours();
  const of = (m) => colour(inkOf(side, m));
  const banded = [...others, { m: model, band }].filter((one) => one.band);
  const outlines = banded.map((one) => outline(axis, one.band));
  get(`${side}-bands`).data = {
    xs: outlines.map((one) => one.x), ys: outlines.map((one) => one.y), colour: banded.map(({ m }) => of(m)),
    alpha: banded.map(({ m }) => (m === model ? 0.25 : 0.15)),
  };
  const lost = axis.missing === null ? [] : banded.flatMap((one) => placesOf(axis, one.band.low).apart.map((v) => ({ ...one, v })));
  get(`${side}-whiskers`).data = {
    x: lost.map(({ v }) => axis.x[v]), low: lost.map(({ band: { low }, v }) => low[v]), high: lost.map(({ band: { high }, v }) => high[v]),
    colour: lost.map(({ m }) => of(m)),
  };
  const lines = others.map(({ curve }) => linesOf(axis, curve));
  get(`${side}-others`).data = {
    xs: lines.map((one) => one.sure.x), ys: lines.map((one) => one.sure.y),
    colour: others.map(({ m }) => of(m)), dash: others.map(({ m }) => DASHES[m % DASHES.length]),
  };
  get(`${side}-others-dots`).data = {
    x: lines.flatMap((one) => one.dots.x), y: lines.flatMap((one) => one.dots.y),
    colour: lines.flatMap((one, k) => one.dots.x.map(() => of(others[k].m))),
  };
}

// A model keeps its colour, whichever is chosen.
const inkOf = (side, m) => (m === 0 ? (side === "pi" ? "pfi" : "pd") : `model${1 + ((m - 1) % 4)}`);

function outline(axis, { low, high }) {
  const there = placesOf(axis, low).joined;
  const [under, over] = [at(axis, low, there), at(axis, high, there)];
  return { x: [...under.x, ...over.x.reverse()], y: [...under.y, ...over.y.reverse()] };
}

function put(get, name, axis, curve) {
  const { sure, dots } = linesOf(axis, curve);
  get(name).data = sure;
  get(`${name}-dots`).data = dots;
}

function markRows(page, get) {
  for (const side of SIDES) {
    const view = page.view[side];
    const picked = page.picked === null ? null : view.curveOf(page.picked);
    const lit = page.lit === null ? null : view.curveOf(page.lit);
    setRange(page, side, picked);
    if (view.axis.words) {
      markCategories(page, side, picked, lit);
      continue;
    }
    put(get, `${side}-picked`, view.axis, picked);
    put(get, `${side}-lit`, view.axis, lit);
    const { y_range } = get(side);
    const [start, end] = view.range;
    if (y_range.start === start && y_range.end === end) continue;
    get(`${side}-ticker`).ticks = ticksOf(view.range, 5);
    y_range.setv({ start, end });
  }
}

// Once a view and a picked row, not once a hover.
function setRange(page, side, picked) {
  const view = page.view[side];
  if (view.range && view.picked === page.picked) return;
  const whole = Boolean(page.whole?.[side]);
  view.range = rangeOf(view, whole, picked);
  view.picked = page.picked;
  if (view.axis.words) drawCategories(page, side);
  const words = beyondWords(beyond(view, view.range, picked), page.picked === null ? "" : page.rowName(page.picked));
  byId(`beyond-${side}`).textContent = words;
  const button = byId(`whole-${side}`);
  button.hidden = !words && !whole;
  button.setAttribute("aria-pressed", String(whole));
}

function chartButtons(page) {
  page.whole = { pi: false, pd: false };
  for (const side of SIDES) {
    byId(`whole-${side}`).addEventListener("click", () => {
      page.whole[side] = !page.whole[side];
      page.view[side].range = null;
      page.parts.charts.mark();
    });
  }
}

function drawRows(get, side, { axis, bars, title }) {
  const name = `${side}-rows`;
  const top = Math.max(...bars.all.top, 1);
  get(`${name}-all`).data = bars.all;
  get(`${name}-group`).data = bars.group;
  Object.assign(get(`${name}-y`), { start: 0, end: top * 1.1 });
  const notes = axis.missing === null ? { x: [], y: [], text: [] } : { x: [axis.range[1]], y: [top * 1.08], text: ["missing ▸"] };
  get(`${name}-notes`).data = notes;
  for (const kind of KINDS_OF_AXES) get(`${name}-${kind}`).visible = axis.kind === kind;
  get(`${name}-number`).ticker.min_interval = axis.whole ? 1 : 0; // no tick at 1.5 rooms
  get(`${name}-date`).ticker.desired_num_ticks = byId(`chart-${side}`).clientWidth < NARROW ? 3 : 6;
  get(`${name}-title`).text = title;
}

// Numbers with the minus sign of the page; categories and dates as they are.
const labelOf = ({ kind, labels }, v) => (kind === "number" ? withMinus(labels[v]) : labels[v]);

const shortened = (label, most = 18) => (label.length > most ? `${label.slice(0, most - 1)}…` : label);

// Colours are defined once, in the style sheet.
function colours() {
  const style = getComputedStyle(document.documentElement);
  return (name) => style.getPropertyValue(`--${name}`).trim();
}

function paint(page, get) {
  const colour = colours();
  for (const side of SIDES) {
    const view = page.view[side];
    for (const name of [side, `${side}-rows`]) paintFigure(get, name, colour);
    get(`${side}-zero`).line_color = colour("ink-soft");
    stroke(get, `${side}-curves-of`, colour("curve"), Number(colour("curve-alpha")));
    stroke(get, `${side}-all-of`, colour("ink-soft"), 1);
    if (!view.axis.words) drawModels(get, side, view);
    paintMean(get, side, colour, colour(inkOf(side, view.model)));
    for (const part of ["picked", "lit"]) paintDotted(get, `${side}-${part}`, colour(part), 1, colour(part));
    for (const [part, name] of [["all", "bar"], ["group", inkOf(side, 0)]]) {
      const { glyph } = get(`${side}-rows-${part}-of`);
      glyph.fill_color = { value: colour(name) };
      glyph.line_color = { value: colour("paper") };
    }
    get(`${side}-rows-notes-of`).glyph.text_color = { value: colour("ink-soft") };
  }
}

function paintMean(get, side, colour, ink) {
  paintDotted(get, `${side}-mean`, ink, 1, ink);
  paintDotted(get, `${side}-faded`, ink, Number(colour("faded-alpha")), ink);
  stroke(get, `${side}-bridge-of`, ink, 1);
}

function paintDotted(get, name, ink, alpha, filling) {
  stroke(get, `${name}-of`, ink, alpha);
  stroke(get, `${name}-dots-of`, ink, alpha);
  get(`${name}-dots-of`).glyph.fill_color = { value: filling };
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
  for (const kind of KINDS_OF_AXES) if (get(`${name}-${kind}`)) axes.push(get(`${name}-${kind}`));
  for (const axis of axes) {
    axis.setv({
      axis_line_color: rule, major_tick_line_color: rule, minor_tick_line_color: null,
      major_label_text_color: ink, axis_label_text_color: ink, major_label_text_font_size: "12px",
      axis_label_text_font_size: "12px", axis_label_text_font_style: "normal",
    });
  }
  const title = get(`${name}-title`);
  if (title) title.setv({ text_color: colour("ink"), text_font_size: "13px" });
}
