"use strict";
// Sort a table by a column: numbers by value, words by alphabet, what is missing at the end.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  const body = table.tBodies[0];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    const key = (row) => {
      const cell = row.cells[column];
      if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
      return head.classList.contains("number") || cell.classList.contains("missing") ? null : cell.textContent;
    };
    const compare = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
      return down ? -order : order;
    };
    heads.forEach((other) => other.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    [...body.rows].sort(compare).forEach((row) => { row.classList.remove("section"); body.append(row); });
  }));
}
// Let the reader stop an animation, or start it where motion is not wanted by default.
for (const figure of document.querySelectorAll("figure.moving")) {
  const image = figure.querySelector("img");
  const source = figure.querySelector("source");
  const button = figure.querySelector("button");
  const [moving, still] = [image.src, source.srcset];
  let playing = !matchMedia("(prefers-reduced-motion: reduce)").matches;
  const show = () => {
    image.src = playing ? moving : still;
    button.textContent = playing ? "Pause" : "Play";
  };
  source.remove();
  button.hidden = false;
  button.addEventListener("click", () => { playing = !playing; show(); });
  show();
}
