"use strict";
// The page works without this script: it draws the two figures, and lets the reader choose a point of the frontier.
// Text from the data is set as text, never as HTML.
(function () {
  function read(id) {
    const element = document.getElementById(id);
    return element ? JSON.parse(element.textContent) : null;
  }

  const figures = read("figures-data") || {};
  const frontier = read("points-data");
  const quiet = { responsive: true, displaylogo: false, displayModeBar: false };

  // "var(--after)" in a figure stands for a colour of the style sheet, which differs for light, dark and paper.
  function painted(value, style) {
    if (typeof value === "string") {
      const name = /^var\((--[a-z]+)\)$/.exec(value);
      return name ? style.getPropertyValue(name[1]).trim() : value;
    }
    if (Array.isArray(value)) {
      return value.some((each) => typeof each === "object" && each !== null)
        ? value.map((each) => painted(each, style)) : value;
    }
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, painted(each, style)]));
    }
    return value;
  }

  function draw(name, width) {
    const element = document.getElementById(name);
    if (!element || !figures[name] || !window.Plotly) return;
    const figure = painted(figures[name], getComputedStyle(document.documentElement));
    if (width) figure.layout.width = width;
    Plotly.react(element, figure.data, figure.layout, quiet);
  }

  function drawAll(width) {
    Object.keys(figures).forEach((name) => draw(name, width));
  }

  // --- the frontier: slider, marks and tables show one point ---
  function percent(value) {
    return (value === null ? 0 : value) + "%";
  }

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
    const point = frontier.points[place];
    const slider = document.getElementById("point");
    slider.value = place;
    slider.setAttribute("aria-valuetext", point.text);
    document.getElementById("point-text").textContent = point.text;
    document.querySelectorAll("#readouts dd").forEach((element, each) => {
      element.textContent = point.readouts[each];
    });
    document.querySelectorAll("#chosen-groups [data-cell]").forEach((cell, each) => fill(cell, point.cells[each]));
    // The first traces are the paths; as many rings follow, one around the chosen point of each.
    for (let each = 0; each < frontier.paths; each += 1) {
      const path = figures.frontier.data[each];
      const ring = figures.frontier.data[frontier.paths + each];
      ring.x = [path.x[place]];
      ring.y = [path.y[place]];
      ["error_x", "error_y"].filter((bar) => ring[bar]).forEach((bar) => {
        ring[bar].array = [path[bar].array[place]];
        ring[bar].arrayminus = [path[bar].arrayminus[place]];
      });
    }
    draw("frontier");
  }

  drawAll();
  if (frontier && document.getElementById("point")) {
    choose(frontier.chosen);
    document.getElementById("point").addEventListener("input", (event) => choose(Number(event.target.value)));
    const chart = document.getElementById("frontier");
    if (chart.on) {
      chart.on("plotly_click", (event) => {
        const hit = event.points.find((each) => each.curveNumber < frontier.paths);
        if (hit) choose(hit.pointNumber);
      });
    }
  }

  // --- light, dark, paper ---
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll());
  const paper = window.matchMedia("print");
  paper.addEventListener("change", (event) => {
    drawAll(event.matches ? 680 : undefined);
    if (!event.matches) {
      // A figure keeps its last width until it is told to look at its place again.
      document.querySelectorAll(".js-plotly-plot").forEach((element) => Plotly.Plots.resize(element));
    }
  });
  // On paper there is no slider: show the table of all points instead, and put it back afterwards.
  const opened = [];
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details.on-paper:not([open])").forEach((element) => {
      element.open = true;
      opened.push(element);
    });
  });
  window.addEventListener("afterprint", () => {
    opened.splice(0).forEach((element) => { element.open = false; });
  });
})();
