// Focus stays where it was when a part of the page is drawn again, or when the focused button is switched off: it goes
// to the new element that says the same, or else to a neighbour.

const REACHED = 'button, input, select, textarea, summary, a[href], [tabindex="0"]';
const canFocus = (one) => one.isConnected && !one.disabled && one.getClientRects().length > 0;

function keepFocus() {
  let last = null;
  document.addEventListener("focusin", ({ target }) => { last = target.closest?.("main, header") ? known(target) : null; });
  document.addEventListener("pointerdown", () => { last = null; }, true); // a click elsewhere gives focus up
  const guard = new MutationObserver(() => {
    const lost = document.activeElement === document.body || document.activeElement === null || !canFocus(document.activeElement);
    if (!last || !lost || canFocus(last.element)) return;
    const next = successor(last);
    if (next) next.focus({ preventScroll: true }); else last = null;
  });
  guard.observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ["disabled", "hidden", "open"] });
}

function known(element) {
  const places = [];
  for (let one = element.parentElement; one; one = one.parentElement) if (one.id) places.push(one.id);
  return { element, places, says: saying(element), at: reached(places[0]).indexOf(element) };
}

const saying = (one) => JSON.stringify([one.tagName, one.id, one.type, { ...one.dataset }, one.getAttribute("aria-label"), one.type === "checkbox" ? one.value : one.textContent]);
const reached = (id) => [...(byId(id)?.querySelectorAll(REACHED) ?? [])];

function successor({ places, says, at }) {
  for (const place of places) {
    const there = reached(place).filter(canFocus);
    const same = there.find((one) => saying(one) === says);
    if (same) return same;
    if (there.length) return there[Math.min(Math.max(at, 0), there.length - 1)];
  }
  return null;
}

// Bokeh's canvases can be focused, but nothing can be done there by keyboard: Tab skips them. What they show is in their
// names and in the tables.
function skipCharts(root = document) {
  for (const one of root.querySelectorAll("*")) {
    if (root !== document && one.tabIndex >= 0) one.tabIndex = -1;
    if (one.shadowRoot) skipCharts(one.shadowRoot);
  }
}
