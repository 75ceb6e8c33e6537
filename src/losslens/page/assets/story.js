// The story of the report on one sheet: a page of its own, which this file holds. It opens in a tab, to be read, printed or
// saved; where none may be opened, it is saved.

function storyButton(page) {
  const { story } = page.data;
  byId("story").hidden = !story;
  byId("story").addEventListener("click", () => {
    const url = URL.createObjectURL(new Blob([story], { type: "text/html;charset=utf-8" }));
    if (!window.open(url, "_blank")) download("story.html", story, "text/html");
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  });
}
