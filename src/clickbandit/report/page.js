// Draws the charts of a page, each from the specification beside it, and again when the reader changes something:
// policies that are switched off leave all charts, and "linear scale" changes the charts of one figure.
const off = new Set();

function shaped(text, linear) {
  const spec = JSON.parse(text);
  spec.data.values = spec.data.values.filter((row) => !off.has(row.name));
  if (linear) straighten(spec);
  return spec;
}

function straighten(part) {
  if (part === null || typeof part !== "object") return;
  const y = part.encoding?.y;
  if (y?.scale?.type === "log") {
    y.scale = {domain: [0, y.scale.domain[1]], nice: true};
    y.axis = {format: "~g", tickCount: 5};
  }
  Object.values(part).forEach(straighten);
}

async function draw(chart) {
  const linear = chart.closest("figure").dataset.linear === "yes";
  const actions = {export: true, source: false, compiled: false, editor: false};
  const result = await vegaEmbed(chart.querySelector("div"), shaped(chart.querySelector("script").textContent, linear), {
    renderer: "svg",
    actions,
    downloadFileName: chart.id || "chart",
  });
  chart.finalize?.();
  chart.finalize = result.finalize;
  chart.view = result.view;
  chart.querySelector("summary")?.setAttribute("aria-label", "Save the chart");
}

const charts = [...document.querySelectorAll(".chart")];
charts.forEach(draw);

document.querySelectorAll("button.key").forEach((key) =>
  key.addEventListener("click", () => {
    const shown = off.delete(key.dataset.name) || !off.add(key.dataset.name);
    document.querySelectorAll("button.key").forEach((other) => {
      if (other.dataset.name === key.dataset.name) other.setAttribute("aria-pressed", shown);
    });
    charts.forEach(draw);
  }),
);

// A policy's lines stand out while its key is pointed at, in charts that know how.
function focus(name) {
  charts.forEach((chart) => {
    const signals = Object.keys(chart.view?.getState({signals: (signal) => signal === "chosen"}).signals ?? {});
    if (signals.length) chart.view.signal("chosen", name).run();
  });
}
document.querySelectorAll("button.key").forEach((key) => {
  ["pointerenter", "focus"].forEach((kind) => key.addEventListener(kind, () => focus(key.dataset.name)));
  ["pointerleave", "blur"].forEach((kind) => key.addEventListener(kind, () => focus("")));
});

document.querySelectorAll("button.scale").forEach((button) =>
  button.addEventListener("click", () => {
    const figure = button.closest("figure");
    figure.dataset.linear = figure.dataset.linear === "yes" ? "no" : "yes";
    button.textContent = figure.dataset.linear === "yes" ? "logarithmic scale" : "linear scale";
    figure.querySelectorAll(".chart").forEach(draw);
  }),
);
