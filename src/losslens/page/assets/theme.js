// Before anything is painted: the reader's own choice of this session, or else the system's.
try {
  const stored = sessionStorage.getItem("losslens-theme");
  const dark = stored ? stored === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
} catch {
  document.documentElement.dataset.theme = "light"; // no storage: a sandboxed frame
}
