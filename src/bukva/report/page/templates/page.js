// The charts, and the choices above charts and samples. Without a choice made, the page shows the first of each.
const specs = JSON.parse(document.getElementById("specs").textContent);
const labelLimit = innerWidth < 500 ? 130 : 260; // pixels
const options = { renderer: "svg", actions: false, ast: true, defaultStyle: false, config: { axis: { labelLimit } } };

const chosen = (form) => [...form.querySelectorAll("input:checked")].map((input) => input.value).join(" ");

for (const place of document.querySelectorAll("[data-chart]")) {
  const form = document.getElementById(place.dataset.choices ?? "");
  const draw = () => vegaEmbed(place, specs[place.dataset.chart][form ? chosen(form) : ""], options);
  form?.addEventListener("change", draw);
  draw();
}

const form = document.getElementById("choose-samples");
const show = () => {
  for (const sample of document.querySelectorAll("[data-sample]")) sample.hidden = sample.dataset.sample !== chosen(form);
};
form?.addEventListener("change", show);
if (form) show();
