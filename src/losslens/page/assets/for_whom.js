// Groups of rows by one column, side by side, and two of them compared. All numbers were computed in Python: nothing
// here needs rows.

function forWhom(page) {
  const found = page.data.for_whom;
  if (!found) return;
  const choices = [byId("group-first"), byId("group-second")];
  const order = found.groups.map((_, g) => g).sort((a, b) => found.models[0].groups[b].error - found.models[0].groups[a].error);
  const ends = [order[0], order.at(-1)]; // at first, the largest and the smallest error
  choices.forEach((choice, k) => {
    found.groups.forEach((group, g) => choice.append(el("option", { value: g, title: group.label }, shortened(group.label, 40))));
    choice.value = String(ends[k]);
    choice.addEventListener("change", () => drawTwoGroups(page));
  });
}

function drawForWhom(page) {
  const found = page.data.for_whom;
  if (!found) return;
  const { groups } = found.models[page.model];
  const errors = spanOf(groups), importances = spanOf(groups.flatMap((group) => group.importances));
  const feature = (name) => el("th", { scope: "col", class: "column", title: name }, el("span", {}, name));
  byId("for-whom-head").replaceChildren(el("tr", {}, el("th", { scope: "col", title: found.column }, shortened(found.column, 20)), el("th", { scope: "col", class: "number" }, "rows"),
    el("th", { scope: "col", class: "column" }, "error"), el("th", { scope: "col", class: "number" }, "skill"), found.features.map(feature)));
  byId("for-whom-body").replaceChildren(...groups.map((group, g) => el("tr", {},
    el("th", { scope: "row" }, el("span", { class: "label", title: found.groups[g].label }, shortened(found.groups[g].label, 40)), careful(group.caution), showRows(page, found.groups[g], `${found.column} is ${found.groups[g].label}`, { "data-group": g })),
    el("td", { class: "number" }, count(found.groups[g].n)),
    el("td", { class: "column" }, estimate(`group-error-${g}`, group.error, group, errors, "sfimp", `error where ${found.column} is ${found.groups[g].label}`)),
    el("td", { class: "number" }, finite(group.skill) ? percent(group.skill) : "–"),
    group.importances.map((one, f) => el("td", { class: "column" },
      estimate(`group-pfi-${g}-${f}`, one.pfi, one, importances, "pfi", `importance of ${found.features[f]}`))))));
  const lacking = groups.some((group) => group.importances.some((one) => !finite(one.low)));
  const cautions = [...new Set(groups.flatMap((group) => [group, ...group.importances]).map((one) => one.caution).filter(Boolean))];
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

// A number above a dot with its interval.
function estimate(name, value, ends, scale, kind, label) {
  const parts = [line("zero", scale(0), scale(0), 0, 14)];
  if (finite(ends.low)) parts.push(line(kind, scale(ends.low), scale(ends.high), 7, 7));
  if (finite(value)) parts.push(svg("circle", { class: `${kind} mark`, cx: `${scale(value)}%`, cy: 7, r: 4 }));
  const said = `${label}: ${number(value, 3)}${finite(ends.low) ? `, interval ${number(ends.low, 3)} to ${number(ends.high, 3)}` : ""}`;
  return [output(name, value, label, kind === "sfimp" ? 4 : 3), kind === "pfi" ? careful(ends.caution) : null, svg("svg", { class: "bars", role: "img", "aria-label": said, height: 14 }, svg("title", {}, said), parts)];
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
    cell("first less second", "bars"), cell("difference", "number"), cell("95% interval", "number")));
  const both = differenceOf(page, first, second);
  if (!both) {
    byId("two-groups-body").replaceChildren(el("tr", {}, el("td", { colspan: 6 }, "Choose two different groups.")));
    return;
  }
  const { groups } = found.models[page.model];
  const rows = [["error", groups[first].error, groups[second].error, both.error, spanOf([both.error])]];
  const scale = spanOf(both.importances);
  found.features.forEach((name, f) => rows.push([`importance of ${name}`, groups[first].importances[f].pfi, groups[second].importances[f].pfi, both.importances[f], scale]));
  byId("two-groups-body").replaceChildren(...rows.map(([name, a, b, one, at], k) => el("tr", {},
    el("th", { scope: "row", title: name }, shortened(name, 60)),
    el("td", { class: "number" }, number(a)), el("td", { class: "number" }, number(b)),
    el("td", { class: "bars" }, differenceBar(one, at, name)),
    el("td", { class: "number" }, output(`two-groups-${k}`, one.value, `difference of ${name}`)),
    el("td", { class: "number" }, between(one)))));
}

// Hollow: the interval includes 0.
function differenceBar(one, scale, name) {
  const parts = [line("zero strong", scale(0), scale(0), 0, 20)];
  if (!finite(one.value)) return svg("svg", { class: "bars", role: "img", "aria-label": `${name}: unknown`, height: 20 }, parts);
  if (finite(one.low)) parts.push(line("pair", scale(one.low), scale(one.high), 10, 10));
  const sure = one.low > 0 || one.high < 0;
  parts.push(svg("circle", { class: sure ? "pair mark" : "pair hollow", cx: `${scale(one.value)}%`, cy: 10, r: 4.5 }));
  return svg("svg", { class: "bars", role: "img", "aria-label": `${name}: ${number(one.value)}, interval ${between(one)}`, height: 20 }, parts);
}
