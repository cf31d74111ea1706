// Draws the plots of a report: unpacks plotly.js and the data from the page, keeps the time axes
// together, and follows the legend, the colour scheme and the printer.
"use strict";

(async () => {
  const problem = document.getElementById("problem");
  const fail = (text) => {
    problem.textContent = `${text} The same plots are in the folder plots/ beside this file.`;
    problem.hidden = false;
  };

  async function unpack(id) {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  let data;
  try {
    data = JSON.parse(await unpack("data"));
    const script = document.createElement("script");
    script.textContent = await unpack("library");
    document.head.append(script);
    if (!window.Plotly) throw new Error("plotly.js did not start");
  } catch (error) {
    fail(`The interactive plots need a browser of 2023 or later (${error.message}).`);
    return;
  }

  // Plotly reads some markup in names.
  const plain = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colours = 12;
  const colour = (number) => css(`--c${number % colours}`);

  // What is drawn: `kinds` are lines that every flow or link has in that plot.
  const plots = {
    throughput: { unit: "Mbit/s", of: "flows", kinds: [{ key: "throughput" }] },
    average: { unit: "Mbit/s", of: "flows", kinds: [{ key: "average" }] },
    cwnd: {
      unit: "kB",
      of: "flows",
      kinds: [
        { key: "cwnd", label: "CurCwnd", on: true },
        { key: "ssthresh", label: "CurSsthresh", on: data.flows.length <= 2, dashed: true, shape: "hv" },
      ],
    },
    rtt: {
      unit: "ms",
      of: "flows",
      kinds: [
        { key: "rtt", label: "SmoothedRTT", on: true },
        { key: "rto", label: "CurRTO", on: false, dashed: true },
      ],
    },
    queue: {
      unit: "packets",
      of: "links",
      kinds: [{ key: "queue" }, { key: "drops", label: "drops", on: true, marks: true }],
    },
    delivered: { unit: "MB", of: "flows", kinds: [{ key: "delivered" }] },
  };
  const shown = {
    flows: data.flows.map(() => true),
    links: data.links.map((link) => link.shown),
  };

  function lineWidth(count) {
    if (count <= 2) return 1.6;
    return count <= 10 ? 1.3 : 1;
  }

  function trace(plot, kind, item, number) {
    const list = data[plot.of];
    const suffix = plot.kinds.length > 1 && kind.label ? ` ${kind.label}` : "";
    const base = {
      x: item[kind.key].x,
      y: item[kind.key].y,
      name: plain(item.name) + suffix,
      meta: { number, kind },
    };
    if (kind.marks) {
      return {
        ...base,
        mode: "markers",
        opacity: 0.75,
        marker: { symbol: "x-thin", size: 6, line: { width: 1.2 } },
        customdata: item.dropped,
        hovertemplate: `%{customdata} lost<extra>${plain(item.name)}</extra>`,
      };
    }
    return {
      ...base,
      mode: "lines",
      line: {
        width: kind.dashed ? 1.2 : lineWidth(list.length),
        dash: kind.dashed ? "5px,4px" : "solid",
        shape: kind.shape || "linear",
        simplify: false,
      },
      hovertemplate: `%{y:.4~g} ${plot.unit}<extra>${plain(item.name) + suffix}</extra>`,
    };
  }

  // A threshold over its own window could not be seen in the same colour, and losses have theirs.
  function strokeOf(plot, { number, kind }) {
    if (kind.marks) return css("--loss");
    return kind.dashed && data[plot.of].length === 1 ? css("--muted") : colour(number);
  }

  const visible = (plot, { number, kind }) => shown[plot.of][number] && kind.on !== false;

  function layout(plot) {
    const count = data[plot.of].length;
    return {
      autosize: true,
      margin: { l: 62, r: 12, t: 10, b: 44 },
      showlegend: false,
      hovermode: count <= 12 ? "x unified" : "closest",
      hoverdistance: 24,
      dragmode: "zoom",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12.5 },
      xaxis: {
        range: [0, data.duration],
        title: { text: "Time (s)", standoff: 6, font: { size: 12.5 } },
        zeroline: false,
        showline: true,
        ticks: "outside",
        ticklen: 4,
        hoverformat: ".2f",
      },
      yaxis: {
        rangemode: "tozero",
        title: { text: plot.unit, standoff: 8, font: { size: 12.5 } },
        zeroline: false,
        nticks: 6,
        tickformat: "~f",
        separatethousands: true,
      },
      shapes: data.warmup > 0
        ? [{ type: "rect", xref: "x", yref: "paper", x0: 0, x1: data.warmup, y0: 0, y1: 1, line: { width: 0 }, opacity: 0.5, layer: "below" }]
        : [],
      annotations: data.warmup > 0
        ? [{ xref: "x", yref: "paper", x: 0, y: 1, xanchor: "left", yanchor: "top", text: "warm-up", showarrow: false, font: { size: 11 } }]
        : [],
    };
  }

  function themed() {
    const theme = {
      paper_bgcolor: css("--ground"),
      plot_bgcolor: css("--ground"),
      "font.color": css("--muted"),
      "hoverlabel.bgcolor": css("--raised"),
      "hoverlabel.bordercolor": css("--line"),
      "hoverlabel.font.color": css("--text"),
      "modebar.bgcolor": "rgba(0,0,0,0)",
      "modebar.color": css("--muted"),
      "modebar.activecolor": css("--text"),
    };
    for (const axis of ["xaxis", "yaxis"]) {
      theme[`${axis}.gridcolor`] = css("--grid");
      theme[`${axis}.linecolor`] = css("--line");
      theme[`${axis}.tickcolor`] = css("--line");
    }
    if (data.warmup > 0) theme["shapes[0].fillcolor"] = css("--grid");
    return theme;
  }

  const drawn = [];
  const whole = [0, data.duration];
  let following = false;

  function follow(source) {
    if (following) return;
    const range = source.layout.xaxis.range;
    following = true;
    const moves = drawn
      .filter(({ div }) => div !== source)
      .map(({ div }) => {
        const [from, to] = div.layout.xaxis.range;
        if (from === range[0] && to === range[1]) return null;
        const change = { "xaxis.range": [...range] };
        if (range[0] === whole[0] && range[1] === whole[1]) change["yaxis.autorange"] = true;
        return Plotly.relayout(div, change);
      });
    Promise.all(moves).finally(() => { following = false; });
  }

  function restyle(entry) {
    const { div, plot } = entry;
    const list = div.data.map((_, at) => at);
    Plotly.restyle(div, {
      visible: div.data.map((t) => visible(plot, t.meta)),
      "line.color": div.data.map((t) => strokeOf(plot, t.meta)),
      "marker.line.color": div.data.map((t) => strokeOf(plot, t.meta)),
    }, list);
  }

  const refresh = (of) => drawn.filter(({ plot }) => !of || plot.of === of).forEach(restyle);
  const retheme = () => {
    const theme = themed();
    for (const entry of drawn) {
      Plotly.relayout(entry.div, theme);
      restyle(entry);
    }
  };

  function button(label, pressed, toggle) {
    const element = document.createElement("button");
    element.type = "button";
    element.setAttribute("aria-pressed", String(pressed));
    const line = document.createElement("i");
    const text = document.createElement("span");
    text.className = "label";
    text.textContent = label;
    element.title = label;
    element.append(line, text);
    element.addEventListener("click", toggle);
    return element;
  }

  // One name a flow or link; a double click shows it alone, another one all of them.
  function names(of, parent) {
    const state = shown[of];
    const buttons = data[of].map((item, number) => {
      const element = button(item.name, state[number], () => {
        state[number] = !state[number];
        update();
      });
      element.querySelector("i").style.color = `var(--c${number % colours})`;
      if (item.control) {
        const control = document.createElement("span");
        control.className = "control";
        control.textContent = item.control;
        element.append(control);
        element.title += ` (${item.control})`;
      }
      element.addEventListener("dblclick", () => {
        const alone = state.every((on, at) => on === (at === number));
        state.forEach((_, at) => { state[at] = alone || at === number; });
        update();
      });
      return element;
    });
    function update() {
      buttons.forEach((element, at) => element.setAttribute("aria-pressed", String(state[at])));
      refresh(of);
    }
    parent.append(...buttons);
  }

  names("flows", document.getElementById("legend"));

  for (const figure of document.querySelectorAll("figure[data-plot]")) {
    const plot = plots[figure.dataset.plot];
    const div = figure.querySelector(".plot");
    const traces = plot.kinds.flatMap((kind) =>
      data[plot.of].map((item, number) => trace(plot, kind, item, number)));
    const filled = traces.filter((t) => t.x.length > 0);
    if (filled.length === 0) {
      div.className = "empty";
      div.textContent = "Nothing to draw: there are no such samples in this run.";
      continue;
    }
    const keys = document.createElement("div");
    keys.className = "keys";
    if (plot.of === "links") names("links", keys);
    for (const kind of plot.kinds.filter((kind) => kind.label)) {
      if (!filled.some((t) => t.meta.kind === kind)) continue;
      const element = button(kind.label, kind.on, () => {
        kind.on = !kind.on;
        element.setAttribute("aria-pressed", String(kind.on));
        refresh(plot.of);
      });
      if (kind.dashed) element.querySelector("i").className = "dashed";
      if (kind.marks) element.querySelector("i").className = "cross";
      keys.append(element);
    }
    figure.querySelector("figcaption").append(keys);
    const entry = { div, plot };
    await Plotly.newPlot(div, filled, layout(plot), {
      responsive: true,
      displaylogo: false,
      doubleClick: "reset",
      showTips: false,
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
      toImageButtonOptions: { format: "svg", filename: figure.dataset.plot, width: 1000, height: 380 },
    });
    await Plotly.relayout(div, themed());
    restyle(entry);
    drawn.push(entry);
    div.on("plotly_relayout", () => follow(div));
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", retheme);

  // A printed page is narrower than a window and always light.
  const paper = 680;
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("paper");
    const theme = themed();
    for (const entry of drawn) {
      Plotly.relayout(entry.div, { ...theme, width: paper, autosize: false });
      restyle(entry);
    }
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("paper");
    for (const { div } of drawn) Plotly.relayout(div, { width: null, autosize: true });
    retheme();
  });
  document.documentElement.dataset.ready = "true";
})();
