"use strict";
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0], rows = [...body.rows];
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent.trim() : Number(cell.dataset.v);
  };
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    if (rows.some(row => row.cells[column].classList.contains("picture"))) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending" ||
        head.getAttribute("aria-sort") === null && head.classList.contains("n");
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const order = (a, b) => {
        const [x, y] = [value(a, column), value(b, column)];
        if (typeof x === "number" && typeof y === "number") return x - y;
        if (typeof x !== typeof y) return typeof x === "number" ? 1 : -1;
        return x.localeCompare(y, "en", {numeric: true});
      };
      rows.sort((a, b) => descending ? order(b, a) : order(a, b));
      body.append(...rows);
    });
  });
  if (rows.length > 8) {
    const label = document.createElement("label"), input = document.createElement("input");
    label.className = "filter";
    input.type = "search";
    label.append("Filter: ", input);
    table.parentElement.before(label);
    input.addEventListener("input", () => {
      const wanted = input.value.toLowerCase();
      for (const row of rows) row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
    });
  }
}
const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;
tip.setAttribute("aria-hidden", "true");
document.body.append(tip);
for (const title of document.querySelectorAll("rect > title")) {
  const rect = title.parentElement, text = title.textContent;
  rect.setAttribute("aria-label", text);
  title.remove();
  rect.addEventListener("pointermove", event => {
    tip.textContent = text;
    tip.hidden = false;
    tip.style.left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 4) + "px";
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 4) + "px";
  });
  rect.addEventListener("pointerleave", () => { tip.hidden = true; });
}
// A click on a group of a treemap shows it alone, with the names that there is room for then; Escape or the button leads back.
for (const map of document.querySelectorAll("svg.treemap")) {
  const size = map.getAttribute("viewBox").split(" ").map(Number), views = [size];
  const place = rect => ["x", "y", "width", "height"].map(name => Number(rect.getAttribute(name)));
  const rects = [...map.querySelectorAll("rect")].map(rect => [rect, place(rect)]);
  const button = document.createElement("button"), names = document.createElementNS(map.namespaceURI, "g");
  const within = ([x, y, w, h], [X, Y, W, H]) => x >= X - 1 && y >= Y - 1 && x + w <= X + W + 1 && y + h <= Y + H + 1;
  const show = () => {
    const view = views[views.length - 1], zoomed = views.length > 1;
    const unit = Math.max(view[2] / size[2], view[3] / size[3]);
    map.setAttribute("viewBox", view.join(" "));
    map.setAttribute("preserveAspectRatio", "xMinYMin meet");
    map.classList.toggle("zoomed", zoomed);
    button.hidden = !zoomed;
    names.replaceChildren();
    for (const [rect, area] of zoomed ? rects : []) {
      const [x, y, w, h] = area, group = rect.classList.contains("group");
      const room = Math.floor((w / unit - 8) / 6.4), label = rect.getAttribute("aria-label") || "";
      let name = label.slice(0, label.lastIndexOf(": "));
      if (!group) name = name.slice(name.lastIndexOf("/") + 1);
      if (!within(area, view) || (group ? 15 : h) < 13 * unit && h < 14 * unit || room < 3 || name.length > room && room < 6) continue;
      const text = document.createElementNS(map.namespaceURI, "text");
      text.setAttribute("x", x + 4 * unit);
      text.setAttribute("y", y + 11.5 * unit);
      text.setAttribute("class", group ? "head" : "leaf");
      text.style.fontSize = 11 * unit + "px";
      text.textContent = name.length > room ? name.slice(0, room - 1) + "…" : name;
      names.append(text);
    }
  };
  const into = ([x, y]) => {
    const view = views[views.length - 1];
    const groups = rects.filter(([rect, area]) => rect.classList.contains("group") && within([x, y, 0, 0], area) &&
      within(area, view) && area[2] * area[3] < 0.95 * view[2] * view[3]);
    if (groups.length) views.push(groups.sort((a, b) => b[1][2] * b[1][3] - a[1][2] * a[1][3])[0][1]);
    show();
  };
  const back = () => { if (views.length > 1) views.pop(); show(); };
  map.append(names);
  map.setAttribute("role", "group");
  button.type = "button";
  button.className = "back " + (map.classList.contains("narrow") ? "narrow" : "wide");
  button.textContent = "Zoom out";
  button.hidden = true;
  button.addEventListener("click", back);
  map.before(button);
  map.addEventListener("click", event => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(map.getScreenCTM().inverse());
    into([point.x, point.y]);
  });
  map.addEventListener("keydown", event => {
    if (event.key === "Escape") back();
    if (event.key !== "Enter" && event.key !== " " || !event.target.classList.contains("group")) return;
    event.preventDefault();
    const [x, y] = place(event.target);
    into([x + 1, y + 1]);
  });
  for (const [rect] of rects.filter(([rect]) => rect.classList.contains("group"))) {
    rect.setAttribute("tabindex", "0");
    rect.setAttribute("role", "button");
  }
}
