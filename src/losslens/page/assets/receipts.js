// Behind each sentence that a function of the library made: its numbers, the test, the rows, and the Python that gives the
// same. One button a sentence, wherever it stands on the page.

let receiptCount = 0;

function offerReceipts(page) {
  for (const place of document.querySelectorAll("main :is(p, li, dd, [data-said])")) {
    const receipt = place.querySelector("button.receipt") || place.closest(".receipt-of") ? null : page.data.receipts[place.textContent.trim()];
    if (receipt) place.append(" ", receiptButton(page, place, receipt));
  }
}

function receiptButton(page, place, receipt) {
  const id = `receipt-${receiptCount++}`;
  const toggle = () => {
    const open = byId(id);
    button.setAttribute("aria-expanded", String(!open));
    if (open) open.remove(); else (place.closest("li, dd") ?? place)[place.matches("li, dd") ? "append" : "after"](receiptOf(page, receipt, id));
  };
  const button = el("button", { type: "button", class: "receipt", "aria-expanded": "false", "aria-label": "where this comes from", title: "Where this comes from", onclick: toggle });
  return button;
}

function receiptOf(page, { numbers, test, level, rows, python }, id) {
  const facts = [
    ...numbers.map(([name, value]) => [name, number(value, 6)]),
    ["test", test || "none: it is about these rows"], ...(level > 0 ? [["may be false", `on ${percent(level)} of data sets`]] : []),
    ["rows", count(rows)],
  ];
  const list = el("dl", {}, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
  const copy = el("button", { type: "button", class: "small", onclick: async () => { copy.textContent = (await copied(python)) ? "Copied" : "Select and copy it"; } }, "Copy");
  return el("div", { class: "receipt-of", id }, list, el("pre", { tabindex: 0, role: "group", "aria-label": "the same in Python" }, python), copy);
}
