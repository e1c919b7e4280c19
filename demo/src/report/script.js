// A pointer over one chart shows the same second in all of them.
const charts = [...document.querySelectorAll("svg[data-values]")].map((svg) => ({
  svg,
  figure: svg.closest("figure"),
  left: +svg.dataset.left,
  right: +svg.dataset.right,
  end: +svg.dataset.end,
  series: JSON.parse(svg.dataset.values),
  pointer: svg.querySelector(".pointer"),
}));

function hide() {
  for (const chart of charts) {
    chart.pointer.setAttribute("visibility", "hidden");
    chart.tip?.remove();
    chart.tip = undefined;
  }
}

function show(chart, second) {
  const x = chart.left + ((second + 0.5) / chart.end) * (chart.right - chart.left);
  chart.pointer.setAttribute("x1", x);
  chart.pointer.setAttribute("x2", x);
  chart.pointer.setAttribute("visibility", "visible");
  if (!chart.tip) {
    chart.tip = document.createElement("div");
    chart.tip.className = "tip";
    chart.figure.append(chart.tip);
  }
  const lines = chart.series.map(([name, , values]) => `${name}: ${values[second] ?? "–"}`);
  chart.tip.innerText = [`${second} s`, ...lines].join("\n");
  const box = chart.svg.getBoundingClientRect();
  const at = (x / chart.svg.viewBox.baseVal.width) * box.width;
  const leftSide = at > box.width / 2;
  chart.tip.style.left = leftSide ? "" : `${at + 28}px`;
  chart.tip.style.right = leftSide ? `${box.width - at + 28}px` : "";
}

for (const { svg, left, right, end } of charts) {
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    const second = Math.floor(((x - left) / (right - left)) * end);
    if (second < 0 || second >= end) return hide();
    for (const chart of charts) show(chart, second);
  });
  svg.addEventListener("pointerleave", hide);
}
