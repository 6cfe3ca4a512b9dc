"use strict";
// The page works without this script.  It lets the reader choose a point of the frontier, show or hide a line of a
// picture, and read the values of lines.  Text from the data is set as text, never as HTML.
(function () {
  const all = (selector, inside) => (inside || document).querySelectorAll(selector);

  // --- pictures: a click on a name shows or hides its series; the pointer reads the lines ---
  all(".keys button").forEach((button) => {
    const place = [...button.parentNode.children].indexOf(button);
    const series = () => [...all(".series", button.closest(".chart"))].filter((each) => each.dataset.name)[place];
    button.addEventListener("click", () => {
      const hidden = series().toggleAttribute("hidden");
      button.setAttribute("aria-pressed", String(!hidden));
    });
  });

  function value(axis, at) {
    const [low, high, log, start, stop] = axis;
    const share = (at - start) / (stop - start);
    return log ? low * (high / low) ** share : low + share * (high - low);
  }

  all(".picture").forEach((picture) => {
    const [across, up] = JSON.parse(picture.dataset.axes);
    const said = picture.parentNode.querySelector(".said-at");
    picture.addEventListener("pointermove", (event) => {
      const box = picture.getBoundingClientRect();
      const at = (event.clientX - box.left) / box.width * picture.viewBox.baseVal.width;
      const found = [];
      let near = null;
      all(".series:not([hidden])", picture).forEach((series) => {
        const points = [...all("polyline", series)].flatMap((line) => [...line.points]);
        if (!points.length) return;
        near = points.reduce((best, each) => (Math.abs(each.x - at) < Math.abs(best.x - at) ? each : best));
        found.push(`${series.dataset.name} ${value(up, near.y).toPrecision(3)}`);
      });
      said.textContent = near ? `${value(across, near.x).toPrecision(3)}: ${found.join(", ")}` : "";
    });
    picture.addEventListener("pointerleave", () => { said.textContent = ""; });
  });

  // --- the frontier: slider, marks and tables show one point ---
  const data = document.getElementById("points-data");
  const points = data ? JSON.parse(data.textContent).points : [];
  const slider = document.getElementById("point");
  const percent = (part) => (part === null ? 0 : part) + "%";

  function fill(cell, values) {
    const [text, interval, also, at, start, stop] = values;
    cell.querySelector(".text").textContent = text;
    cell.querySelector(".interval").textContent = interval;
    const other = cell.querySelector(".also");
    if (other) other.textContent = also;
    const dot = cell.querySelector(".dot");
    dot.hidden = at === null;
    dot.style.left = percent(at);
    const range = cell.querySelector(".range");
    range.style.left = percent(start);
    range.style.width = start === null ? "0%" : (stop - start).toFixed(2) + "%";
  }

  function choose(place) {
    const point = points[place];
    slider.value = place;
    slider.setAttribute("aria-valuetext", point.text);
    document.getElementById("point-text").textContent = point.text;
    all("#readouts dd").forEach((element, each) => { element.textContent = point.readouts[each]; });
    all("#chosen-groups [data-cell]").forEach((cell, each) => fill(cell, point.cells[each]));
    all("#frontier .line ~ .point").forEach((mark) => {
      mark.classList.toggle("chosen", Number(mark.dataset.point) === place);
    });
  }

  if (slider) {
    slider.addEventListener("input", (event) => choose(Number(event.target.value)));
    all("#frontier .line ~ .point").forEach((mark) => {
      mark.addEventListener("click", () => choose(Number(mark.dataset.point)));
    });
  }

  // On paper there is no slider: show the table of all points instead, and put it back afterwards.
  const opened = [];
  window.addEventListener("beforeprint", () => {
    all("details.on-paper:not([open])").forEach((element) => {
      element.open = true;
      opened.push(element);
    });
  });
  window.addEventListener("afterprint", () => {
    opened.splice(0).forEach((element) => { element.open = false; });
  });
})();
