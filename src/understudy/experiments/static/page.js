// For every page of results: tables are sorted by a click on a heading, and a choice shows one of several parts.
(function () {
  "use strict";

  function numberIn(text) {
    const found = /[-+]?\d[\d,]*\.?\d*(e[-+]?\d+)?/.exec(text.replace(/\u2212/g, "-"));
    return found ? Number(found[0].replace(/,/g, "")) : NaN;
  }

  function keyOf(row, column) {
    const cell = row.cells[column];
    const text = cell.dataset.value === undefined ? cell.textContent.trim() : cell.dataset.value;
    return { text, number: column === 0 && cell.dataset.value === undefined ? NaN : numberIn(text) };
  }

  function compare(one, other) {
    if (Number.isNaN(one.number) && Number.isNaN(other.number)) return one.text.localeCompare(other.text);
    return one.number - other.number;
  }

  function missing(key, column) {
    return column > 0 && Number.isNaN(key.number) && !/\p{L}/u.test(key.text);
  }

  function sort(table, column, down) {
    const body = table.tBodies[0];
    const fixed = (row) => row.classList.contains("apart");
    const rows = Array.from(body.rows).filter((row) => !fixed(row));
    const keys = new Map(rows.map((row) => [row, keyOf(row, column)]));
    rows.sort((a, b) => {
      const [one, other] = [keys.get(a), keys.get(b)];
      const gap = missing(one, column) - missing(other, column); // what has no value stays below
      return gap || (down ? -1 : 1) * compare(one, other);
    });
    body.prepend(...rows);
    Array.from(table.tHead.rows[0].cells).forEach((cell, place) => {
      if (place === column) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
  }

  function makeSortable(table) {
    if (!table.tHead || table.dataset.sortable) return;
    table.dataset.sortable = "yes";
    Array.from(table.tHead.rows[0].cells).forEach((cell, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = cell.textContent;
      button.title = "Sort by this column";
      cell.replaceChildren(button);
      button.addEventListener("click", () => {
        const now = cell.getAttribute("aria-sort");
        sort(table, column, now ? now === "ascending" : column > 0); // numbers: the largest first
      });
    });
  }

  // <select data-shows="NAME"> shows those with data-NAME of that value, and of the others that are chosen.
  function showChosen() {
    const chosen = Array.from(document.querySelectorAll("select[data-shows]"));
    const names = chosen.map((one) => one.dataset.shows);
    const parts = names.length ? document.querySelectorAll(names.map((name) => `[data-${name}]`).join(",")) : [];
    parts.forEach((part) => {
      part.hidden = chosen.some((one) => {
        const own = part.dataset[one.dataset.shows];
        return one.value !== "" && own !== undefined && own !== one.value;
      });
    });
  }

  document.querySelectorAll("table").forEach(makeSortable);
  document.querySelectorAll("select[data-shows]").forEach((one) => one.addEventListener("change", showChosen));
  document.documentElement.classList.add("scripted");
  showChosen();
  window.understudyPage = { makeSortable };
})();
