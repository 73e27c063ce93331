"use strict";
(() => {
  const $ = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const parcels = JSON.parse($("#parcels").textContent);

  /* What is not shown at once lies deflated in the page. */
  async function unpack(name) {
    const bytes = Uint8Array.from(atob(parcels[name]), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).text();
  }

  /* ---- one chosen layer, everywhere */
  const count = all(".detail article").length;
  let chosen = Number(document.body.dataset.first || 0);

  function choose(number, follow) {
    if (number < 0 || number >= count) return;
    chosen = number;
    for (const a of all(".detail article")) a.hidden = a.id !== `layer-${number}`;
    for (const row of all(".layers tbody tr")) row.classList.toggle("chosen", Number(row.dataset.layer) === number);
    mark(follow);
  }

  function mark(follow) {
    const boxes = all(".view .box");
    for (const b of boxes) b.classList.toggle("chosen", b.dataset.layer === String(chosen));
    const first = boxes.find((b) => b.classList.contains("chosen"));
    if (follow && first) centre(first);
    const said = $("#chosen");
    if (said) said.textContent = `Layer ${chosen + 1} of ${count}`;
  }

  for (const b of all(".layers td button")) {
    b.addEventListener("click", () => {
      choose(Number(b.closest("tr").dataset.layer), true);
      $("#graph").scrollIntoView({ block: "start" });
    });
  }

  /* ---- words find layers */
  const find = $("#find");
  const rows = all(".layers tbody tr");

  find.addEventListener("input", () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) row.hidden = !words.every((w) => row.dataset.words.toLowerCase().includes(w));
    const left = rows.filter((row) => !row.hidden).length;
    $("#found").textContent = words.length ? `${left} of ${count}` : "";
  });
  find.addEventListener("keydown", (e) => {
    const first = rows.find((row) => !row.hidden);
    if (e.key === "Enter" && first) choose(Number(first.dataset.layer), true);
  });
  document.addEventListener("keydown", (e) => {
    if (e.key !== "/" || e.target === find) return;
    e.preventDefault();
    find.focus();
  });

  /* ---- the graph */
  const view = $(".view");
  let box = null;
  let whole = null;
  const svg = () => view.querySelector("svg");

  function apply() { svg().setAttribute("viewBox", `${box.x} ${box.y} ${box.w} ${box.h}`); }

  function fit(everything) {
    const r = view.getBoundingClientRect();
    const aspect = r.height / Math.max(r.width, 1);
    const needed = Math.max(whole.w, whole.h / aspect);
    const w = everything ? needed : Math.min(needed, Math.max(r.width, 320) * 1.1);
    box = { x: (whole.w - w) / 2, y: everything ? (whole.h - w * aspect) / 2 : 0, w, h: w * aspect };
    apply();
  }

  function zoom(factor, x, y) {
    const w = Math.min(Math.max(box.w * factor, 80), Math.max(whole.w, whole.h) * 4);
    const f = w / box.w;
    const px = x === undefined ? box.x + box.w / 2 : x;
    const py = y === undefined ? box.y + box.h / 2 : y;
    box = { x: px - (px - box.x) * f, y: py - (py - box.y) * f, w, h: box.h * f };
    apply();
  }

  function pan(dx, dy) { box.x += dx * box.w; box.y += dy * box.h; apply(); }

  function centre(element) {
    const b = element.getBBox();
    box.x = b.x + b.width / 2 - box.w / 2;
    box.y = b.y + b.height / 2 - box.h / 2;
    apply();
  }

  function point(event) {
    const r = view.getBoundingClientRect();
    return [box.x + ((event.clientX - r.left) / r.width) * box.w, box.y + ((event.clientY - r.top) / r.height) * box.h];
  }

  function begin() {
    whole = { w: Number(svg().getAttribute("width")), h: Number(svg().getAttribute("height")) };
    svg().setAttribute("preserveAspectRatio", "xMidYMin meet");
    fit(false);
    mark(false);
  }

  if (view) {
    const held = new Map();
    let moved = 0;
    let apart = 0;
    view.addEventListener("pointerdown", (e) => { held.set(e.pointerId, e); moved = 0; apart = 0; });
    view.addEventListener("pointermove", (e) => {
      const before = held.get(e.pointerId);
      if (!before) return;
      held.set(e.pointerId, e);
      const r = view.getBoundingClientRect();
      if (held.size === 1) {
        const dx = e.clientX - before.clientX, dy = e.clientY - before.clientY;
        moved += Math.abs(dx) + Math.abs(dy);
        if (moved < 5) return;
        if (!view.hasPointerCapture(e.pointerId)) view.setPointerCapture(e.pointerId);
        view.classList.add("moving");
        pan(-dx / r.width, -dy / r.height);
      } else if (held.size === 2) {
        const [a, b] = [...held.values()];
        const now = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
        if (apart) zoom(apart / now);
        apart = now;
        moved += 10;
      }
    });
    for (const kind of ["pointerup", "pointercancel"]) {
      view.addEventListener(kind, (e) => { held.delete(e.pointerId); apart = 0; view.classList.remove("moving"); });
    }
    view.addEventListener("click", (e) => {
      const found = e.target.closest(".box[data-layer]");
      if (found && moved < 5) choose(Number(found.dataset.layer), false);
    });
    view.addEventListener("wheel", (e) => {
      if (!e.ctrlKey && !e.metaKey && document.activeElement !== view) return;
      e.preventDefault();
      zoom(e.deltaY > 0 ? 1.15 : 1 / 1.15, ...point(e));
    }, { passive: false });
    const keys = {
      "+": () => zoom(0.8), "=": () => zoom(0.8), "-": () => zoom(1.25), "0": () => fit(true),
      ArrowLeft: () => pan(-0.1, 0), ArrowRight: () => pan(0.1, 0), ArrowUp: () => pan(0, -0.1), ArrowDown: () => pan(0, 0.1),
      n: () => choose(chosen + 1, true), p: () => choose(chosen - 1, true),
    };
    view.addEventListener("keydown", (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey || !keys[e.key]) return;
      e.preventDefault();
      keys[e.key]();
    });
    $("#zoom-in").addEventListener("click", keys["+"]);
    $("#zoom-out").addEventListener("click", keys["-"]);
    $("#fit").addEventListener("click", keys["0"]);
    $("#save").addEventListener("click", () => {
      const copy = svg().cloneNode(true);
      copy.setAttribute("viewBox", `0 0 ${whole.w} ${whole.h}`);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
      link.download = `${$("h1").textContent}.svg`;
      link.click();
      URL.revokeObjectURL(link.href);
    });
    const pictures = { model: view.innerHTML };
    for (const b of all("[data-picture]")) {
      b.addEventListener("click", async () => {
        const name = b.dataset.picture;
        pictures[name] = pictures[name] || (await unpack(name));
        view.innerHTML = pictures[name];
        for (const o of all("[data-picture]")) o.setAttribute("aria-pressed", String(o === b));
        begin();
      });
    }
    window.addEventListener("beforeprint", () => fit(true));
    begin();
  }

  /* ---- assembly, when it is asked for */
  for (const d of all("details[data-parcel]")) {
    d.addEventListener("toggle", async () => {
      const pre = d.querySelector("pre");
      if (d.open && !pre.textContent) pre.textContent = await unpack(d.dataset.parcel);
    });
  }

  /* ---- tables sort by the column whose title is pressed */
  for (const b of all(".layers th button")) {
    b.addEventListener("click", () => {
      const th = b.closest("th");
      const body = th.closest("table").tBodies[0];
      const down = th.getAttribute("aria-sort") !== "descending" && th.cellIndex > 0;
      for (const other of th.parentNode.cells) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => Number(row.cells[th.cellIndex].dataset.value || 0);
      const rows = [...body.rows].sort((a, c) => (down ? value(c) - value(a) : value(a) - value(c)));
      body.append(...rows);
    });
  }

  choose(chosen, false);
})();
