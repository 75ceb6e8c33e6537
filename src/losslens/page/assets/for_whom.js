// Groups of rows by one column, side by side, and two of them compared. All numbers were computed in Python: nothing
// here needs rows.

function forWhom(page) {
  const found = page.data.for_whom;
  if (!found) return;
  const choices = [byId("group-first"), byId("group-second")];
  const order = found.groups.map((_, g) => g).sort((a, b) => found.models[0].groups[b].error - found.models[0].groups[a].error);
  const ends = [order[0], order.at(-1)]; // at first, the largest and the smallest error
  const chosen = ends.map(String);
  choices.forEach((choice, k) => {
    found.groups.forEach((group, g) => choice.append(el("option", { value: g, title: group.label }, shortened(group.label, 40))));
    choice.value = chosen[k];
    choice.addEventListener("change", () => {
      if (choices[1 - k].value === choice.value) choices[1 - k].value = chosen[k]; // they swap
      choices.forEach((one, j) => { chosen[j] = one.value; });
      drawTwoGroups(page);
    });
  });
}

function drawForWhom(page) {
  const found = page.data.for_whom;
  if (!found) return;
  const { groups } = found.models[page.model];
  const { of, falls } = page.told[page.model];
  const errors = levelScale(groups.flatMap((group) => [group.error, group.low, group.high]).map(of), falls);
  const importances = levelScale(groups.flatMap((group) => [0, ...group.importances.flatMap((one) => [one.pfi, one.low, one.high])].map((change) => of(group.error + change))), falls);
  const feature = (name) => el("th", { scope: "col", class: "column", title: name }, el("span", {}, name));
  byId("for-whom-head").replaceChildren(el("tr", {}, el("th", { scope: "col", title: found.column }, shortened(found.column, 20)), el("th", { scope: "col", class: "number" }, "rows"),
    el("th", { scope: "col", class: "column" }, "error"), el("th", { scope: "col", class: "number" }, "skill"), found.features.map(feature)));
  byId("for-whom-body").replaceChildren(...groups.map((group, g) => el("tr", {},
    el("th", { scope: "row" }, el("span", { class: "label", title: found.groups[g].label }, shortened(found.groups[g].label, 40)), careful(group.caution), showRows(page, found.groups[g], `${found.column} is ${found.groups[g].label}`, { "data-group": g })),
    el("td", { class: "number" }, count(found.groups[g].n)),
    el("td", { class: "column" }, estimate(page, page.model, `group-error-${g}`, group.error, group, errors, "error", `error where ${found.column} is ${found.groups[g].label}`)),
    el("td", { class: "number" }, finite(group.skill) ? percent(group.skill) : "–"),
    group.importances.map((one, f) => el("td", { class: "column" },
      estimate(page, page.model, `group-pfi-${g}-${f}`, one.pfi, one, importances, "pfi", `importance of ${found.features[f]}`, group.error))))));
  const lacking = groups.some((group) => group.importances.some((one) => !finite(one.low)));
  const cautions = [...new Set(groups.flatMap((group) => [group, ...group.importances]).flatMap((one) => (one.caution ?? "").split(/(?<=\.) (?=[A-Z\d])/)).filter(Boolean))];
  const said = cautions.length ? [`△ ${cautions.slice(0, 3).join(" ")}`] : [];
  byId("for-whom-note").textContent = [...said, ...(lacking ? ["No line: the interval is not known, because the group has too few rows or because not every cell of the feature was kept."] : [])].join(" ");
  drawTwoGroups(page);
}

const careful = (caution) => (caution ? el("span", { class: "far", role: "img", "aria-label": caution, title: caution }, " △") : null);

// A scale from all values and ends, with 0 on it.
function spanOf(all) {
  const ends = all.flatMap((one) => [one.low, one.high, one.error, one.pfi, one.value]).filter(finite);
  const [low, high] = extent([0, ...ends]);
  return (value) => 4 + (92 * (value - low)) / (high - low || 1);
}

// A scale of means in the reader's unit. Errors have 0 on it; probabilities, which fall with the error, need not.
function levelScale(values, falls) {
  const [low, high] = extent([...(falls ? [] : [0]), ...values.filter(finite)]);
  return (value) => 4 + (92 * (value - low)) / (high - low || 1);
}

// A number above a dot with its interval; of an importance also a line where nothing is replaced.
function estimate(page, m, name, loss, ends, scale, kind, label, base = 0) {
  const { of, text, between: both } = page.told[m];
  const at = (change) => scale(of(base + change));
  const parts = base ? [line("zero strong", at(0), at(0), 0, 14)] : [];
  if (finite(ends.low)) parts.push(line(kind, at(ends.low), at(ends.high), 7, 7));
  if (finite(loss)) parts.push(svg("circle", { class: `${kind} ${base && !isSure(ends) ? "hollow" : "mark"}`, cx: `${at(loss)}%`, cy: 7, r: 4 }));
  const said = `${label}: ${text(of(base + loss))}${finite(ends.low) ? `, interval ${both(ends, base)}` : ""}${base ? `, as it is ${text(of(base))}` : ""}`;
  return [told(page, name, loss, label, { m, base, ...ends }), kind === "pfi" ? careful(ends.caution) : null, svg("svg", { class: "bars", role: "img", "aria-label": said, height: 14 }, svg("title", {}, said), parts)];
}

// The differences are of the first of a pair less the second; asked the other way round, signs and ends change places.
function differenceOf(page, first, second) {
  const { differences } = page.data.for_whom.models[page.model];
  const found = differences.find((one) => one.first === Math.min(first, second) && one.second === Math.max(first, second));
  if (!found || first < second) return found;
  return { error: turned(found.error), importances: found.importances.map(turned) };
}

function drawTwoGroups(page) {
  const found = page.data.for_whom;
  const [first, second] = [Number(byId("group-first").value), Number(byId("group-second").value)];
  const names = [first, second].map((g) => found.groups[g].label);
  const cell = (text, kind) => el("th", { scope: "col", class: kind }, text);
  const clamp = (text) => el("span", { title: text }, shortened(text, 24));
  byId("two-groups-head").replaceChildren(el("tr", {}, el("td", {}), cell(clamp(names[0]), "number"), cell(clamp(names[1]), "number"),
    cell("first less second", "bars"), cell(`difference (${page.data.loss.title})`, "number"), cell("95% interval", "number")));
  const both = differenceOf(page, first, second);
  const { groups } = found.models[page.model];
  const level = (g, pfi, ends) => { const { of, text, ends: both } = page.told[page.model]; const base = groups[g].error; return text(of(base + pfi), finite(ends.low) ? both(ends, base) : null); };
  const error = (g) => level(g, 0, { low: groups[g].low - groups[g].error, high: groups[g].high - groups[g].error });
  const rows = [["error", error(first), error(second), both.error, spanOf([both.error])]];
  const scale = spanOf(both.importances);
  found.features.forEach((name, f) => rows.push([`${name} replaced`, ...[first, second].map((g) => level(g, groups[g].importances[f].pfi, groups[g].importances[f])), both.importances[f], scale]));
  byId("two-groups-body").replaceChildren(...rows.map(([name, a, b, one, at], k) => el("tr", {},
    el("th", { scope: "row", title: name }, shortened(name, 60)),
    el("td", { class: "number" }, a), el("td", { class: "number" }, b),
    el("td", { class: "bars" }, differenceBar(one, at, name)),
    el("td", { class: "number" }, difference(`two-groups-${k}`, one, `difference of ${name}`)),
    el("td", { class: "number" }, between(one)))));
}

// A difference with as many digits as its interval allows.
function difference(name, one, label) {
  const shown = output(name, one.value, label);
  shown.textContent = rounded(one.value, [one.low, one.high]);
  Object.assign(shown.dataset, { low: one.low, high: one.high });
  return shown;
}

// Hollow: the interval includes 0.
function differenceBar(one, scale, name) {
  const parts = [line("zero strong", scale(0), scale(0), 0, 20)];
  if (!finite(one.value)) return svg("svg", { class: "bars", role: "img", "aria-label": `${name}: unknown`, height: 20 }, parts);
  if (finite(one.low)) parts.push(line("pair", scale(one.low), scale(one.high), 10, 10));
  parts.push(svg("circle", { class: isSure(one) ? "pair mark" : "pair hollow", cx: `${scale(one.value)}%`, cy: 10, r: 4.5 }));
  return svg("svg", { class: "bars", role: "img", "aria-label": `${name}: ${number(one.value)}, interval ${between(one)}`, height: 20 }, parts);
}
