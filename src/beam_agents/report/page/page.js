(function () {
  "use strict";
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const root = document.documentElement;
  const drawn = new Set();

  function palette() {
    const style = getComputedStyle(root);
    return { ink: style.getPropertyValue("--ink").trim(), soft: style.getPropertyValue("--soft").trim(),
             grid: style.getPropertyValue("--grid").trim(), card: style.getPropertyValue("--card").trim(),
             font: getComputedStyle(document.body).fontFamily };
  }

  function themed(layout) {
    const colours = palette();
    const look = { gridcolor: colours.grid, linecolor: colours.grid, tickcolor: colours.grid };
    const axis = function (own) {
      const title = own && own.title ? { title: { ...own.title, font: { size: 13 } } } : {};
      return { ...own, ...look, ...title };
    };
    return { ...layout, font: { family: colours.font, size: 13, color: colours.soft },
             hoverlabel: { bgcolor: colours.card, bordercolor: colours.grid, font: { color: colours.ink } },
             xaxis: axis(layout.xaxis), yaxis: axis(layout.yaxis) };
  }

  function draw(place) {
    const figure = figures[place.dataset.figure];
    if (!figure || !window.Plotly || drawn.has(place)) { return; }
    drawn.add(place);
    Plotly.newPlot(place, figure.data, themed(figure.layout),
                   { responsive: true, displayModeBar: false, displaylogo: false });
  }

  function visible() {
    document.querySelectorAll(".chart").forEach(function (place) {
      const folded = place.closest("details:not([open])");
      if (!folded) { draw(place); }
    });
  }

  function redraw(width) {
    drawn.forEach(function (place) {
      Plotly.react(place, place.data, { ...themed(place.layout), width: width, autosize: !width });
    });
  }

  async function load() {
    const packed = document.getElementById("plotly").textContent.trim();
    if (!packed || !window.DecompressionStream) { return; }
    const bytes = Uint8Array.from(atob(packed), function (mark) { return mark.charCodeAt(0); });
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
    visible();
    root.dataset.charts = "drawn";
  }

  function filter(text) {
    const wanted = text.trim().toLowerCase();
    let shown = 0;
    document.querySelectorAll("tbody tr, details.activation").forEach(function (row) {
      row.hidden = wanted !== "" && !row.textContent.toLowerCase().includes(wanted);
      shown += row.hidden ? 0 : 1;
    });
    document.getElementById("found").textContent = wanted ? shown + " rows match" : "";
  }

  document.getElementById("filter").addEventListener("input", function (event) { filter(event.target.value); });
  document.getElementById("theme").addEventListener("click", function () {
    const dark = root.dataset.theme ? root.dataset.theme === "dark"
                                    : window.matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    redraw();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () { redraw(); });
  document.querySelectorAll("details.activation").forEach(function (one) { one.addEventListener("toggle", visible); });
  const paperWidth = 640;
  window.addEventListener("beforeprint", function () {
    root.dataset.kept = root.dataset.theme || "";
    root.dataset.theme = "light";
    redraw(paperWidth);
  });
  window.addEventListener("afterprint", function () {
    if (root.dataset.kept) { root.dataset.theme = root.dataset.kept; } else { delete root.dataset.theme; }
    redraw();
  });
  load();
})();
