"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const at = (id) => document.getElementById(id);
  const counts = read("counts");
  const specs = read("specs");
  const { depth, hits, score, n, positives, exact } = counts;
  const SLIDES = 1000;
  const views = {};

  const whole = (value) => value.toLocaleString("en-US");
  const amount = (value) =>
    Number.isInteger(value)
      ? whole(value)
      : value.toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
  const percent = (share) => (100 * share).toFixed(1) + "%";
  const number = (value) => {
    const size = Math.abs(value);
    if (size >= 1e4) return whole(Math.round(value));
    if (size > 0 && size < 1e-4) return value.toExponential(3).replace(/\.?0*e/, "e");
    return String(Number(value.toPrecision(4)));
  };

  /** Index of the first kept length that is at least k. */
  function endOf(k) {
    let low = 1, high = depth.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (depth[middle] < k) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The length nearest to k whose counts are exact. */
  function nearest(k) {
    k = Math.min(Math.max(Math.round(k), 1), n);
    if (k <= exact) return k;
    const end = endOf(k);
    const before = depth[end - 1];
    return k - before < depth[end] - k ? before : depth[end];
  }

  /** Counts in the first k rows; those of a tie that k cuts, in proportion. */
  function found(k) {
    const end = endOf(k);
    const rows = depth[end] - depth[end - 1];
    const within = k - depth[end - 1];
    const gained = hits[end] - hits[end - 1];
    return {
      hits: hits[end - 1] + (gained * within) / rows,
      threshold: score[end],
      tied: k < depth[end] ? rows : 0,
    };
  }

  function show(id, value, text) {
    const element = at("k-" + id);
    element.value = value;
    element.textContent = text;
  }

  function note(asked, k, tied) {
    const notes = [];
    if (asked !== k) notes.push(`Shown for ${whole(k)} rows, the nearest length that this page contains.`);
    if (tied) notes.push(`k is within a tie of ${whole(tied)} rows of equal score; the counts are averages over their order.`);
    at("k-note").textContent = notes.join(" ");
  }

  function choose(asked) {
    const k = nearest(asked);
    const now = found(k);
    const precision = now.hits / k;
    show("hits", now.hits, amount(now.hits));
    show("alarms", k - now.hits, amount(k - now.hits));
    show("precision", precision, percent(precision));
    show("recall", now.hits / positives, percent(now.hits / positives));
    const lift = precision / (positives / n);
    show("lift", lift, lift.toFixed(2));
    show("threshold", now.threshold, number(now.threshold));
    const rows = k === 1 ? "row" : `${whole(k)} rows`;
    at("k-sentence").textContent =
      `Of the first ${rows}, ${amount(now.hits)} ${now.hits === 1 ? "is" : "are"} positive.`;
    note(asked, k, now.tied);
    slider.setAttribute("aria-valuetext", `first ${whole(k)} rows`);
    if (views.curve) views.curve.signal("k", k).runAsync();
    return k;
  }

  const slider = at("k-slider");
  const box = at("k-number");
  const toSlide = (k) => (n > 1 ? (SLIDES * Math.log(k)) / Math.log(n) : 0);
  slider.addEventListener("input", () => {
    box.value = choose(Math.round(Math.exp((slider.value / SLIDES) * Math.log(n))));
  });
  box.addEventListener("input", () => {
    if (!box.checkValidity() || box.value === "") {
      at("k-note").textContent = `Give a whole number from 1 to ${whole(n)}.`;
      return;
    }
    slider.value = toSlide(choose(Number(box.value)));
  });

  function start(k) {
    box.value = choose(k);
    slider.value = toSlide(k);
    for (const input of [slider, box]) input.disabled = false;
  }

  /** A click on the curve chooses the length below it. */
  function clickable(view) {
    view.addEventListener("click", (event) => {
      const svg = view.container().querySelector("svg").getBoundingClientRect();
      const x = event.clientX - svg.left - view.origin()[0] - view.padding().left;
      const k = view.scale("x").invert(x);
      if (k >= 1 && k <= n) start(Math.round(k));
    });
  }

  function selectable(view) {
    const rows = at("parts-row");
    rows.disabled = false;
    rows.addEventListener("change", () => view.signal("row", rows.value).runAsync());
  }

  const drawn = { curve: clickable, parts: selectable };
  const options = { actions: false, renderer: "svg", ast: true, tooltip: { disableDefaultStyle: false } };
  for (const [name, spec] of Object.entries(specs)) {
    const box = at("chart-" + name);
    const picture = box.innerHTML;
    vegaEmbed(box, spec, options)
      .then(({ view }) => {
        views[name] = view;
        if (drawn[name]) drawn[name](view);
        if (name === "curve") view.signal("k", nearest(Number(at("k-number").value))).runAsync();
      })
      .catch((error) => {
        box.innerHTML = picture;
        console.error(`chart ${name}: ${error}`);
      });
  }
  start(Number(box.value));
})();
