// Draw the charts, and show the chart or the sample that is selected in a menu.
const labelLimit = innerWidth < 500 ? 160 : 260; // pixels
const options = { renderer: "svg", actions: false, ast: true, defaultStyle: false, config: { axis: { labelLimit } } };

for (const figure of document.querySelectorAll("[data-chart]")) {
  const specs = JSON.parse(figure.querySelector("script").textContent);
  const select = figure.querySelector("select");
  const draw = () => vegaEmbed(figure.querySelector(".chart"), specs[select?.selectedIndex ?? 0], options);
  select?.addEventListener("change", draw);
  draw();
}

const choice = document.getElementById("choose-samples");
const show = () => {
  for (const sample of document.querySelectorAll("[data-sample]")) sample.hidden = sample.dataset.sample !== choice.value;
};
choice?.addEventListener("change", show);
if (choice) show();
