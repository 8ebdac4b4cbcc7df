"use strict";
// Sliders run on logarithms; the number beside each is what is sent.
function position(slider, number) { slider.value = Math.log10(Math.max(Number(number.value), 1e-9)); }

function numberAt(slider) {
  const value = 10 ** Number(slider.value);
  return "whole" in slider.dataset ? Math.round(value) : Number(value.toPrecision(3));
}

function prepareSliders() {
  for (const slider of document.querySelectorAll("input[type=range][data-of]")) {
    position(slider, document.getElementById(slider.dataset.of));
  }
}

document.addEventListener("input", (event) => {
  const field = event.target, form = field.closest("form");
  if (field.dataset.of) document.getElementById(field.dataset.of).value = numberAt(field);
  const slider = document.querySelector(`input[data-of="${CSS.escape(field.id)}"]`);
  if (field.id && slider) position(slider, field);
  for (const shown of document.querySelectorAll(`[data-shows="${CSS.escape(field.dataset.of || field.id)}"]`)) {
    shown.textContent = document.getElementById(field.dataset.of || field.id).value;
  }
  if (form && form.elements.sent) form.elements.sent.value = Date.now();
}, true);

// What a forecast says of each owner goes beside its sliders, which stay as they are.
function fillIn(cells) {
  for (const cell of [...cells.children]) {
    document.getElementById(cell.dataset.means)?.replaceChildren(...cell.childNodes);
  }
  cells.remove();
}

// Charts: what to draw comes as data, colours come from the style sheet.
const drawn = new Map();

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return { ink: of("--ink"), quiet: of("--quiet"), line: of("--line"), together: of("--together-shown"),
           alone: of("--alone-shown"), limit: of("--limit") };
}

function axis(c, name, more) {
  return { name, nameTextStyle: { color: c.quiet }, axisLabel: { color: c.ink }, nameLocation: "middle",
           axisLine: { lineStyle: { color: c.line } }, splitLine: { lineStyle: { color: c.line } }, ...more };
}

function gains(data, c) {
  const bars = data.gains.map((gain, place) => [place, ...gain]);
  const interval = (params, api) => {
    const low = api.coord([api.value(2), api.value(0)]), high = api.coord([api.value(3), api.value(0)]);
    const line = (x1, y1, x2, y2) => ({ type: "line", shape: { x1, y1, x2, y2 },
                                        style: { stroke: c.ink, lineWidth: 1.5 } });
    return { type: "group", children: [line(low[0], low[1], high[0], high[1]),
      line(low[0], low[1] - 3, low[0], low[1] + 3), line(high[0], high[1] - 3, high[0], high[1] + 3)] };
  };
  return {
    height: 70 + 18 * data.names.length,
    option: {
      grid: { left: 8, right: 34, top: 8, bottom: 44, containLabel: true },
      xAxis: axis(c, data.axis, { type: "value", nameGap: 28, splitNumber: 4 }),
      yAxis: axis(c, "", { type: "category", data: data.names, inverse: true, splitLine: { show: false } }),
      tooltip: { renderMode: "richText", trigger: "item" },
      series: [
        { type: "bar", name: "gain", data: bars.map((bar) => ({ value: bar[1],
            itemStyle: data.asked[bar[0]] ? { color: c.together }
              : { color: "transparent", borderColor: c.alone, borderWidth: 1.5, borderType: "dashed" } })) },
        { type: "custom", name: "interval", renderItem: interval, data: bars, encode: { x: [1, 2, 3], y: 0 },
          silent: true, z: 5 },
      ],
    },
  };
}

function path(data, c, width) {
  const last = data.forecast.length;
  const line = (name, values, color, more) => ({ type: "line", name, showSymbol: last === 1, symbolSize: 11, data: values,
    lineStyle: { color, width: 2, ...more }, itemStyle: { color } });
  const series = [
    line("forecast", data.forecast.map((value, round) => [round + 1, value]), c.together),
    line("its interval at the end", data.interval.map((end) => [last, end]), c.together, { width: 14, opacity: 0.3 }),
  ];
  const icons = ["path://M0,8h24v3h-24z", "roundRect", "path://M10,0h5v20h-5z", "diamond"];
  if (data.outcome) {
    const [middle, low, high] = data.outcome;
    series.push(line("result: middle half of the runs", [[last, low], [last, high]], c.alone, { width: 5 }),
      { type: "scatter", name: "result: median", symbol: "diamond", symbolSize: 13, data: [[last, middle]],
        itemStyle: { color: c.alone, borderColor: c.ink, borderWidth: 1 } });
  }
  const narrow = width < 700;
  return { height: narrow ? 380 : 340, option: {
    grid: { left: 12, right: 24, top: narrow ? 110 : 44, bottom: 44, containLabel: true },
    legend: { textStyle: { color: c.ink }, top: 0, orient: narrow ? "vertical" : "horizontal",
              data: series.map(({ name }, place) => ({ name, icon: icons[place],
                itemStyle: place === 1 ? { opacity: 0.3 } : {} })), left: narrow ? "left" : "center" },
    xAxis: axis(c, "round", { type: "value", min: last === 1 ? 0 : 1, max: Math.max(last, 2), nameGap: 28, minInterval: 1 }),
    yAxis: axis(c, "", { type: "log" }),
    tooltip: { renderMode: "richText", trigger: "axis" }, series } };
}

const KINDS = { gains, path };

function draw() {
  for (const source of document.querySelectorAll("[data-chart]")) {
    const data = JSON.parse(source.dataset.chart);
    const place = document.getElementById(source.dataset.on || "chart");
    if (!place) continue;
    const chart = KINDS[data.kind](data, colours(), place.clientWidth);
    place.style.height = `${chart.height}px`;
    place.setAttribute("aria-label", data.label);
    let picture = drawn.get(place);
    if (!picture) drawn.set(place, picture = echarts.init(place, null, { renderer: "canvas" }));
    if (picture.getWidth() !== place.clientWidth || picture.getHeight() !== chart.height) picture.resize();
    picture.setOption({ animation: false, ...chart.option }, true);
  }
}

// What a job says of itself, as long as it runs.
function follow() {
  for (const place of document.querySelectorAll("[data-follow]:not([data-followed])")) {
    place.dataset.followed = "yes";
    const events = new EventSource(place.dataset.follow);
    events.addEventListener("progress", (event) => {
      const said = JSON.parse(event.data);
      place.querySelector("progress").value = said.share;
      place.querySelector("output").textContent = said.words;
    });
    events.addEventListener("end", () => { events.close(); location.reload(); });
    events.addEventListener("error", () => trouble(GONE));
    events.addEventListener("open", () => trouble(""));
    // A browser has few connections for one server: a tab that nobody looks at gives its own back.
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) events.close();
      else if (events.readyState === EventSource.CLOSED) location.reload();
    });
  }
}

// The studio was stopped, or restarted with another token: said once, above the page.
const GONE = "The studio does not answer any more. Jobs go on; start it again and open the address that it prints.";

function trouble(words) {
  const place = document.getElementById("trouble");
  place.textContent = words;
  place.hidden = !words;
}

// Files go to the folder one after the other, each as it is.
async function bring(place, files) {
  const said = place.querySelector("[role=status]"), names = [];
  said.textContent = "";
  for (const file of files) {
    const line = said.appendChild(document.createElement("p"));
    line.textContent = `${file.name} …`;
    try {
      const answer = await fetch(`${place.dataset.bring}?name=${encodeURIComponent(file.name)}`, { method: "POST",
        body: file, headers: { ...JSON.parse(document.body.getAttribute("hx-headers")), "HX-Request": "true" } });
      const told = new DOMParser().parseFromString(await answer.text(), "text/html").body;
      line.textContent = told.textContent.trim();
      line.classList.toggle("refused", !answer.ok || told.querySelector(".refused") !== null);
      if (!line.classList.contains("refused")) names.push(file.name);
    } catch { trouble(GONE); }
  }
  const chosen = [...document.querySelectorAll("#tables input:checked")].map((box) => box.value).concat(names);
  await htmx.ajax("GET", `/files/tables?${new URLSearchParams(chosen.map((name) => ["table", name]))}`, "#tables");
  document.getElementById("tables").dispatchEvent(new Event("change"));
}

function prepareBringing() {
  for (const place of document.querySelectorAll("[data-bring]")) {
    const field = place.querySelector("input[type=file]");
    field.addEventListener("change", async () => { await bring(place, field.files); field.value = ""; });
    place.addEventListener("dragover", (event) => { event.preventDefault(); place.classList.add("over"); });
    place.addEventListener("dragleave", () => place.classList.remove("over"));
    place.addEventListener("drop", (event) => {
      event.preventDefault();
      place.classList.remove("over");
      bring(place, event.dataTransfer.files);
    });
  }
}

// What a slider changed is read out when it rests, in a sentence.
let resting;

function tell() {
  const told = document.getElementById("told"), headline = document.querySelector("#now .headline");
  if (!told || !headline) return;
  clearTimeout(resting);
  const counts = [...document.querySelectorAll("#now .tally li")].map((each) => each.textContent.trim());
  resting = setTimeout(() => { told.textContent = [headline.textContent, ...counts].join("; "); }, 700);
}

function prepare() { prepareSliders(); draw(); follow(); prepareBringing(); }
document.addEventListener("DOMContentLoaded", prepare);
document.addEventListener("htmx:load", (event) => {
  if (event.detail.elt.id === "cells") { fillIn(event.detail.elt); draw(); tell(); }
});
document.addEventListener("htmx:afterRequest", (event) => { if (event.detail.successful) trouble(""); });
document.addEventListener("htmx:sendError", () => trouble(GONE));
document.addEventListener("htmx:responseError", (event) => {
  trouble(event.detail.xhr.status === 401 ? GONE : event.detail.xhr.responseText);
});
window.addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
