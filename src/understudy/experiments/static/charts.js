// Learning curves and differences that a reader can question: values on hover, a choice of metric, reference, scale of
// the labels and strategies. Observable Plot draws them; what is computed here is what tables.py computes.
(function () {
  "use strict";
  const place = document.getElementById("chart-data");
  if (!place || !window.Plot) return;
  const Plot = window.Plot;
  const data = JSON.parse(place.textContent);
  const names = Object.keys(data.styles);
  const state = {
    set: data.sets.length > 1 ? "all" : "0",
    metric: data.metrics[0].name,
    reference: data.reference,
    scale: data.sets.every((one) => one.log) ? "log" : "linear",
    each: false,
    off: new Set(),
    hot: null,
  };

  // Numbers

  const mean = (values) => values.reduce((sum, one) => sum + one, 0) / values.length;

  function deviation(values) {
    if (values.length < 2) return NaN;
    const middle = mean(values);
    return Math.sqrt(values.reduce((sum, one) => sum + (one - middle) ** 2, 0) / (values.length - 1));
  }

  function area(row, schedule) {
    if (schedule.length === 1) return row[0];
    let sum = 0;
    for (let i = 1; i < row.length; i += 1) sum += ((schedule[i] - schedule[i - 1]) * (row[i] + row[i - 1])) / 2;
    return sum / (schedule[schedule.length - 1] - schedule[0]);
  }

  function interval(values) {
    if (values.length < 2) return null;
    const half = (data.critical[values.length] * deviation(values)) / Math.sqrt(values.length);
    return [mean(values) - half, mean(values) + half];
  }

  const column = (rows, i) => rows.map((row) => row[i]);
  const metricNow = () => data.metrics.find((one) => one.name === state.metric);
  const isOff = (name) => state.off.has(name);

  function shownSets() {
    return state.set === "all" ? data.sets : [data.sets[Number(state.set)]];
  }

  // How they are written: as tables.py writes them

  /** The sign is that before rounding, so -0.0026 is -0.00; nothing is 0.00. */
  function signed(metric, value) {
    const shown = metric.scale * value;
    if (Math.abs(shown) < data.least) return (0).toFixed(metric.decimals + 1);
    return (shown > 0 ? "+" : "") + shown.toFixed(metric.decimals + 1);
  }

  const written = (metric, value, more = 0) => (metric.scale * value).toFixed(metric.decimals + more);
  const unit = (metric) => (metric.share ? " %" : "");
  const points = (metric) => (metric.share ? " points" : "");

  function spreadText(metric, values, more = 0) {
    const spread = values.length > 1 ? `±${written(metric, deviation(values), more)}` : "";
    return written(metric, mean(values), more) + spread;
  }

  function differenceText(metric, values) {
    const ends = interval(values);
    return signed(metric, mean(values)) + (ends ? ` [${ends.map((end) => signed(metric, end)).join(", ")}]` : "");
  }

  // What is drawn

  /** Every strategy that a set has and the reader wants: its rows, a repetition each, in the order of the names. */
  function shown(set) {
    const values = set.values[state.metric] || {};
    const ended = set.ended[state.metric] || {};
    return names
      .filter((name) => (name in values || name in ended) && !isOff(name))
      .map((name) => ({
        name,
        style: data.styles[name],
        whole: name in values,
        schedule: name in values ? set.schedule : ended[name].schedule,
        rows: name in values ? values[name] : ended[name].rows,
      }));
  }

  function withDifferences(set, metric) {
    const base = (set.values[state.metric] || {})[state.reference];
    if (!base) return null;
    return shown(set)
      .filter((one) => one.whole && one.name !== state.reference)
      .map((one) => ({
        ...one,
        rows: one.rows.map((row, r) => row.map((value, i) => metric.sign * (value - base[r][i]))),
      }));
  }

  function pointsOf(one, scale, halfOf, textOf) {
    return one.schedule.map((labels, i) => {
      const values = column(one.rows, i);
      const half = halfOf(values);
      const y = scale * mean(values);
      return {
        labels, y, low: y - scale * half, high: y + scale * half, name: one.name, series: one.style.series,
        text: `${one.name}\n${labels.toLocaleString("en")} labels\n${textOf(values, one, i)}`,
      };
    });
  }

  const polygon = (corners) => ({
    draw(context, size) {
      const r = Math.sqrt(size / 1.6);
      corners.forEach(([x, y], i) => (i ? context.lineTo(r * x, r * y) : context.moveTo(r * x, r * y)));
      context.closePath();
    },
  });
  const bar = (x, y) => ({
    draw(context, size) {
      const r = Math.sqrt(size / 1.6);
      context.moveTo(-r * x, -r * y);
      context.lineTo(r * x, r * y);
    },
  });
  const SYMBOLS = {
    o: "circle", s: "square", "^": "triangle", D: "diamond", v: polygon([[-1, -0.8], [1, -0.8], [0, 0.9]]),
    P: "cross", X: "times", ">": polygon([[-0.8, -1], [0.9, 0], [-0.8, 1]]), "<": polygon([[0.8, -1], [-0.9, 0], [0.8, 1]]),
    "*": "star", p: "hexagon", d: polygon([[0, -1.2], [0.6, 0], [0, 1.2], [-0.6, 0]]), h: "hexagon", 1: "wye",
    "+": "plus", "|": bar(0, 1), _: bar(1, 0),
  };

  function marksOf(one, drawn, scale) {
    const { style } = one;
    const common = { x: "labels", className: style.series };
    const strokes = { stroke: style.colour, strokeDasharray: style.dashed ? "5 3" : undefined };
    const marks = [];
    if (state.each && one.rows.length > 1) {
      const each = one.rows.flatMap((row, repeat) => row.map((value, i) => ({ labels: one.schedule[i], y: scale * value, repeat })));
      marks.push(Plot.line(each, { ...common, ...strokes, y: "y", z: "repeat", strokeWidth: 0.8, strokeOpacity: 0.45 }));
    } else if (style.strong && drawn.some((point) => point.high > point.low)) {
      marks.push(Plot.areaY(drawn, { ...common, y1: "low", y2: "high", fill: style.colour, fillOpacity: 0.13 }));
    }
    marks.push(Plot.line(drawn, { ...common, ...strokes, y: "y", strokeWidth: style.strong ? 2 : 1.1 }));
    const fill = style.hollow ? "var(--paper)" : style.colour;
    marks.push(Plot.dot(drawn, { ...common, y: "y", symbol: SYMBOLS[style.marker], r: style.strong ? 3.6 : 3, fill, stroke: style.colour, strokeWidth: 1 }));
    return marks;
  }

  /** The budgets that fit below an axis of this width; the last always. */
  function ticksFor(schedule, width) {
    const place = state.scale === "log" ? Math.log : Number;
    const whole = place(schedule[schedule.length - 1]) - place(schedule[0]) || 1;
    const kept = [schedule[schedule.length - 1]];
    for (let i = schedule.length - 2; i >= 0; i -= 1) {
      if (((place(kept[kept.length - 1]) - place(schedule[i])) / whole) * width >= 44) kept.push(schedule[i]);
    }
    return kept.reverse();
  }

  function draw(holder, curves, schedule, label, scale, halfOf, textOf, below, above = []) {
    const width = Math.max(240, Math.floor(holder.clientWidth));
    const drawn = curves.map((one) => [one, pointsOf(one, scale, halfOf, textOf)]);
    drawn.sort(([one], [other]) => one.style.strong - other.style.strong);
    const all = drawn.flatMap(([, each]) => each);
    const figure = Plot.plot({
      width,
      height: Math.round(Math.min(430, Math.max(310, 0.5 * width))),
      marginLeft: 46,
      marginRight: 18,
      marginBottom: 38,
      style: { fontFamily: "inherit", fontSize: "12px", background: "transparent", color: "var(--ink)", overflow: "visible" },
      ariaLabel: `${label} over labels: ${curves.map((one) => one.name).join(", ")}`,
      x: { type: state.scale, label: "labels →", labelAnchor: "right", domain: [schedule[0], schedule[schedule.length - 1]], ticks: ticksFor(schedule, width - 64), tickFormat: (value) => value.toLocaleString("en"), inset: 8 },
      y: { label, grid: true, nice: true, labelArrow: "none" },
      marks: [
        ...below,
        ...drawn.flatMap(([one, each]) => marksOf(one, each, scale)),
        ...above,
        Plot.tip(all, Plot.pointer({ x: "labels", y: "y", title: "text", fill: "var(--paper)", stroke: "var(--faded)", maxRadius: 60, fontSize: 13, lineHeight: 1.3, lineWidth: 24 })),
      ],
    });
    figure.setAttribute("role", "img");
    renameMarks(figure);
    new MutationObserver(() => renameMarks(figure)).observe(figure, { childList: true, subtree: true });
    for (const one of curves) {
      figure.querySelectorAll(`.${one.style.series}`).forEach((part) => part.classList.add("series"));
    }
    figure.addEventListener("input", () => highlight(figure.value ? figure.value.series : null));
    holder.replaceChildren(figure);
  }

  /** The library labels every group of an image; to readers of screens the image has its own label alone. */
  function renameMarks(figure) {
    figure.querySelectorAll("g[aria-label]").forEach((group) => {
      group.dataset.mark = group.getAttribute("aria-label");
      group.removeAttribute("aria-label");
    });
  }

  function drawLearning(set, holder) {
    const metric = metricNow();
    const ceiling = (set.ceiling[state.metric] || []).length ? metric.scale * mean(set.ceiling[state.metric]) : null;
    const dashes = ceiling === null ? [] : [Plot.ruleY([ceiling], { stroke: "var(--ink)", strokeDasharray: "6 4" })];
    // Under the line, since the title of the axis is above the plot; a halo keeps it readable over curves.
    const label = ceiling === null ? [] : [
      Plot.text([ceiling], { y: (y) => y, text: () => `all labels: ${ceiling.toFixed(metric.decimals)}${unit(metric)}`, frameAnchor: "left", dx: 10, dy: 8, textAnchor: "start", fill: "var(--soft)", stroke: "var(--paper)", strokeWidth: 3 }),
    ];
    const base = (set.values[state.metric] || {})[state.reference];
    const textOf = (values, one, i) => {
      const own = `${spreadText(metric, values, 1)}${unit(metric)}`;
      if (!base || !one.whole || one.name === state.reference) return own;
      const gaps = values.map((value, r) => metric.sign * (value - base[r][i]));
      return `${own}\n${differenceText(metric, gaps)}${points(metric)} against ${state.reference}`;
    };
    draw(holder, shown(set), set.schedule, metric.heading, metric.scale, (values) => deviation(values) || 0, textOf, dashes, label);
  }

  function drawOffsets(set, holder) {
    const metric = metricNow();
    const curves = withDifferences(set, metric);
    if (!curves) {
      holder.textContent = `${state.reference} was not run on this set.`;
      return;
    }
    const label = `${metric.title} better than ${state.reference}${metric.share ? " (points)" : ""}`;
    const error = (values) => (values.length > 1 ? deviation(values) / Math.sqrt(values.length) : 0);
    const textOf = (values) => `${differenceText(metric, values)}${points(metric)} against ${state.reference}`;
    const zero = [Plot.ruleY([0], { stroke: "var(--ink)" })];
    draw(holder, curves, set.schedule, label, metric.scale, error, textOf, zero);
  }

  // The table of what is chosen

  function cell(row, text, value) {
    const made = row.insertCell();
    made.textContent = text;
    if (value !== undefined) made.dataset.value = String(value);
  }

  function fillTable(set, holder) {
    const metric = metricNow();
    const base = (set.values[state.metric] || {})[state.reference];
    const listed = shown(set).filter((one) => one.whole);
    const p = ((set.p[state.metric] || {})[state.reference]) || null;
    const table = document.createElement("table");
    table.createCaption().textContent = `${set.title}: test ${metric.title}${metric.share ? " in %" : ""}${metric.lower ? ", lower is better" : ""}`;
    const head = table.createTHead().insertRow();
    const against = base ? [`against ${state.reference}`, "win/tie/loss", ...(p ? ["p (Holm)"] : [])] : [];
    ["strategy", ...set.schedule.map((labels) => labels.toLocaleString("en")), "area", ...against].forEach((text) => {
      const made = document.createElement("th");
      made.scope = "col";
      made.textContent = text;
      head.append(made);
    });
    const body = table.createTBody();
    const areas = new Map(listed.map((one) => [one.name, one.rows.map((row) => area(row, set.schedule))]));
    listed.sort((one, other) => metric.sign * (mean(areas.get(other.name)) - mean(areas.get(one.name))));
    for (const one of listed) {
      const row = body.insertRow();
      const ranked = set.contestants.includes(one.name);
      if (!ranked) row.className = "apart";
      cell(row, one.name);
      set.schedule.forEach((_, i) => cell(row, spreadText(metric, column(one.rows, i)), mean(column(one.rows, i))));
      const own = areas.get(one.name);
      cell(row, spreadText(metric, own, 1), mean(own));
      if (!base) continue;
      if (one.name === state.reference || !ranked) {
        cell(row, ranked ? "reference" : "not ranked", "");
        cell(row, "", "");
        if (p) cell(row, "", "");
        continue;
      }
      const reference = base.map((each) => area(each, set.schedule));
      const gaps = own.map((value, r) => metric.sign * (value - reference[r]));
      const near = (gap) => Math.abs(gap) < 0.5e-12;
      cell(row, differenceText(metric, gaps), mean(gaps));
      const wins = gaps.filter((gap) => gap > 0 && !near(gap)).length;
      const ties = gaps.filter(near).length;
      cell(row, `${wins}/${ties}/${gaps.length - wins - ties}`, wins);
      if (p) cell(row, p[one.name] < 0.001 ? "<0.001" : p[one.name].toFixed(3), p[one.name]);
    }
    body.append(...Array.from(body.rows).filter((row) => row.classList.contains("apart")));
    holder.replaceChildren(table);
    window.understudyPage.makeSortable(table);
  }

  const KINDS = { learning: drawLearning, offsets: drawOffsets, table: fillTable };

  function redraw() {
    document.querySelectorAll("[data-live]").forEach((part) => {
      const sets = shownSets();
      const key = sets.map((set) => set.title).join("\n");
      if (part.dataset.holds !== key) {
        part.dataset.holds = key;
        part.classList.toggle("several", sets.length > 1);
        part.replaceChildren(...sets.map((set) => {
          const panel = document.createElement("div");
          panel.className = part.dataset.live === "table" ? "panel table" : "panel";
          if (part.dataset.live === "table") {
            panel.tabIndex = 0;
            panel.setAttribute("role", "region");
            panel.setAttribute("aria-label", `Table of ${set.title}`);
          } else if (data.sets.length > 1) {
            const title = document.createElement("h3");
            title.textContent = set.title;
            panel.append(title);
          }
          const holder = document.createElement("div");
          holder.className = "holder";
          panel.append(holder);
          return panel;
        }));
      }
      part.querySelectorAll(".holder").forEach((holder, i) => KINDS[part.dataset.live](sets[i], holder));
    });
    document.querySelectorAll(".series").forEach((part) => {
      part.classList.toggle("off", names.some((name) => isOff(name) && part.classList.contains(data.styles[name].series)));
    });
    document.querySelectorAll(".chip").forEach((chip) => chip.setAttribute("aria-pressed", String(!isOff(chip.dataset.name))));
    highlight(state.hot);
  }

  function highlight(series) {
    state.hot = series;
    document.body.classList.toggle("picking", Boolean(series));
    document.querySelectorAll(".series.hot").forEach((part) => part.classList.remove("hot"));
    if (series) document.querySelectorAll(`.series.${series}`).forEach((part) => part.classList.add("hot"));
  }

  // What one chooses

  const allReferences = names.filter((name) => data.sets.some((set) => set.contestants.includes(name)));
  const CHOICES = {
    set: ["Set", [["all", "all"], ...data.sets.map((set, i) => [String(i), set.title])]],
    metric: ["Metric", data.metrics.map((one) => [one.name, one.title])],
    reference: ["Reference", allReferences.map((name) => [name, name])],
    scale: ["Labels", [["linear", "linear"], ["log", "logarithmic"]]],
  };

  function makeSelect(name) {
    const [title, options] = CHOICES[name];
    const label = document.createElement("label");
    const select = document.createElement("select");
    select.dataset.choose = name;
    select.append(...options.map(([value, text]) => new Option(text, value, false, value === state[name])));
    select.addEventListener("change", () => choose(name, select.value));
    label.append(`${title} `, select);
    return label;
  }

  function makeTick() {
    const label = document.createElement("label");
    const tick = document.createElement("input");
    tick.type = "checkbox";
    tick.dataset.choose = "each";
    tick.addEventListener("change", () => choose("each", tick.checked));
    label.append(tick, " each repetition");
    return label;
  }

  function choose(name, value) {
    state[name] = value;
    document.querySelectorAll(`[data-choose="${name}"]`).forEach((one) => {
      if (one.type === "checkbox") one.checked = value;
      else one.value = value;
    });
    redraw();
  }

  document.querySelectorAll("[data-choices]").forEach((holder) => {
    const wanted = holder.dataset.choices.split(" ").filter((name) => name !== "set" || data.sets.length > 1);
    holder.append(...wanted.map((name) => (name === "each" ? makeTick() : makeSelect(name))));
  });

  const seriesOf = (target) => {
    const part = target.closest && target.closest(".series, .chip");
    if (!part) return null;
    return part.dataset.series || Array.from(part.classList).find((one) => one.startsWith("series-")) || null;
  };
  const isLive = (target) => Boolean(target.closest && target.closest("[data-live] svg"));
  document.addEventListener("mouseover", (event) => { if (!isLive(event.target)) highlight(seriesOf(event.target)); });
  document.addEventListener("focusin", (event) => highlight(seriesOf(event.target)));
  document.addEventListener("click", (event) => {
    const chip = event.target.closest && event.target.closest("[data-name], [data-choose-all]");
    if (!chip) return;
    if (chip.dataset.chooseAll) state.off = new Set(chip.dataset.chooseAll === "none" ? names : []);
    else if (!state.off.delete(chip.dataset.name)) state.off.add(chip.dataset.name);
    redraw();
  });

  document.documentElement.classList.add("live");
  redraw();
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) redraw(); // a phone changes the height alone when one scrolls
    width = window.innerWidth;
  });
})();
