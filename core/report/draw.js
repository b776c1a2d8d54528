// Draws every chart from the JSON beside it, and again in the width of the paper while the page is printed.
const PAPER_WIDTH = 660;
const charts = [...document.querySelectorAll("[data-chart]")];
const config = (place) => ({
  displaylogo: false,
  responsive: true,
  scrollZoom: false,
  modeBarButtons: [["toImage"]],
  toImageButtonOptions: { filename: `draftgauge-${place.dataset.chart}`, scale: 2 },
});
for (const place of charts) {
  const { data, layout } = JSON.parse(document.getElementById(`figure-${place.dataset.chart}`).textContent);
  Plotly.newPlot(place, data, layout, config(place));
}
addEventListener("beforeprint", () => charts.forEach((place) => Plotly.relayout(place, { width: PAPER_WIDTH })));
addEventListener("afterprint", () => charts.forEach((place) => Plotly.relayout(place, { width: null, autosize: true })));
