"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const body = document.body.dataset, live = body.live === "1", interval = 1000 * Number(body.interval);
  const ROWS = 50, STATUS = 2, MESSAGE = 7, RISK = 4;
  const state = Object.assign(
    { sort: 0, down: true, status: "", text: "", rows: ROWS, run: null, round: null, follow: true, open: [], focus: "", x: 0, y: 0 },
    history.state || {},
  );
  const before = { ...state };
  let touched = 0;
  const save = () => {
    state.x = window.scrollX;
    state.y = window.scrollY;
    state.focus = document.activeElement?.id || "";
    state.open = [...document.querySelectorAll("details")].filter((each) => each.open).map((each) => each.id);
    history.replaceState(state, "");
  };

  // The table of runs
  const shownCell = (row, i) => {
    const value = row[i];
    if (value === null) return i === 1 && row[STATUS] !== "running" ? "next" : "–";
    if (i === 1 && value === 0) return "fresh";
    if (i === 6) return new Date(1000 * value).toLocaleTimeString([], { hour12: false });
    if (i === MESSAGE) return data.messages[value];
    return String(value);
  };
  const sortKey = (row, i) => (i === MESSAGE ? data.messages[row[i]] : row[i]);
  const compare = (a, b) => {
    const [p, q] = [sortKey(a, state.sort), sortKey(b, state.sort)];
    if (p === null || q === null) return (p === null) - (q === null); // unknown ones last
    const order = typeof p === "number" && typeof q === "number" ? p - q
      : String(p).localeCompare(String(q), undefined, { numeric: true });
    return (state.down ? -order : order) || a[0] - b[0];
  };
  const matches = (row) => {
    if (state.status && row[STATUS] !== state.status) return false;
    const wanted = state.text.trim().toLowerCase();
    return !wanted || row.some((_, i) => shownCell(row, i).toLowerCase().includes(wanted));
  };
  const element = (tag, words, name) => {
    const made = document.createElement(tag);
    made.textContent = words;
    if (name) made.className = name;
    return made;
  };
  const drawHead = () => {
    const line = document.createElement("tr");
    data.headings.forEach((words, i) => {
      const head = element("th", "");
      head.scope = "col";
      head.ariaSort = i === state.sort ? (state.down ? "descending" : "ascending") : "none";
      const button = element("button", words);
      button.type = "button";
      button.addEventListener("click", () => {
        state.down = i === state.sort ? !state.down : false;
        state.sort = i;
        draw();
      });
      head.append(button);
      line.append(head);
    });
    byId("table").tHead.replaceChildren(line);
  };
  const drawRow = (row) => {
    const line = document.createElement("tr");
    line.dataset.run = row[0];
    line.classList.toggle("picked", row[0] === state.run);
    row.forEach((_, i) => {
      const name = i === STATUS ? `state ${row[i].replace(" ", "-")}` : i === MESSAGE ? "message" : "";
      const cell = element("td", i ? shownCell(row, i) : "", name);
      if (!i) { // a button: the keyboard selects a run, too
        const button = element("button", shownCell(row, 0), "link");
        button.type = "button";
        cell.append(button);
      }
      line.append(cell);
    });
    return line;
  };
  const draw = () => {
    const found = data.rows.filter(matches).sort(compare);
    drawHead();
    byId("table").tBodies[0].replaceChildren(...found.slice(0, state.rows).map(drawRow));
    byId("count").textContent = `${found.length} of ${data.rows.length} runs`;
    byId("more").hidden = found.length <= state.rows;
    save();
  };
  for (const each of [...new Set(data.rows.map((row) => row[STATUS]))].sort()) {
    const option = element("option", each);
    option.value = each;
    byId("status").append(option);
  }
  byId("status").value = state.status;
  if (byId("status").value !== state.status) byId("status").value = state.status = "";
  byId("text").value = state.text;
  byId("status").addEventListener("change", (event) => { state.status = event.target.value; draw(); });
  byId("text").addEventListener("input", (event) => { state.text = event.target.value; draw(); });
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("more").addEventListener("click", () => { state.rows += 4 * ROWS; draw(); });

  // Rounds
  const showRound = (number) => {
    const slider = byId("round");
    if (!slider) return;
    slider.value = number;
    byId("round-words").textContent = data.rounds[number];
    document.querySelectorAll(".round").forEach((each) => each.classList.toggle("on", Number(each.dataset.round) === number));
  };
  byId("round")?.addEventListener("input", (event) => {
    const number = Number(event.target.value);
    state.round = number === data.rounds.length - 1 ? null : number; // the last one stays the last
    showRound(number);
    save();
  });

  // The selected run
  const pick = (run, from) => {
    state.run = run;
    document.querySelectorAll(".picked").forEach((each) => each.classList.remove("picked"));
    const row = data.rows.find((each) => each[0] === run);
    byId("picked").hidden = !row;
    if (!row) return save();
    document.querySelectorAll(`[data-run="${run}"]:not(button)`).forEach((each) => each.classList.add("picked"));
    byId("picked-title").textContent = `Run ${run}: ${row[STATUS]}${row[RISK] === null ? "" : `, risk ${row[RISK]}`}`;
    const facts = byId("picked-facts");
    facts.replaceChildren();
    data.headings.forEach((words, i) => {
      const value = shownCell(row, i);
      if (i && i !== STATUS && i !== RISK && value !== "–" && value !== "") facts.append(element("dt", words), element("dd", value));
    });
    const place = data.places[run];
    if (from && place !== undefined && byId("round")) { state.round = place; showRound(place); }
    save();
  };
  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-run]");
    if (target) pick(Number(target.dataset.run), true);
  });
  byId("unpick").addEventListener("click", () => pick(null));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") pick(null); });

  // State as it was before the page was loaded again
  draw();
  if (state.round !== null && state.round < data.rounds.length) showRound(state.round);
  if (state.run !== null) pick(state.run);
  for (const id of before.open) if (byId(id)) byId(id).open = true;
  document.querySelectorAll("#timeline .broad").forEach((each) => { // the present is at its right end
    each.parentElement.scrollLeft = each.parentElement.scrollWidth;
  });
  const field = byId(before.focus);
  field?.focus({ preventScroll: true });
  if (field?.type === "search") field.setSelectionRange(field.value.length, field.value.length);
  history.scrollRestoration = "manual";
  window.scrollTo({ left: before.x, top: before.y, behavior: "instant" });

  // New pages
  for (const kind of ["pointerdown", "keydown", "wheel", "touchmove"]) addEventListener(kind, () => { touched = Date.now(); }, { passive: true });
  const follow = byId("follow");
  byId("follow-label").hidden = !live;
  follow.checked = state.follow;
  follow.addEventListener("change", () => { state.follow = follow.checked; save(); });
  const due = () => {
    const age = (Date.now() - 1000 * Number(body.written)) / 1000;
    if (age > Math.max(0.006 * interval, 60)) {
      byId("stale").hidden = false;
      byId("stale").textContent = `This page is ${Math.round(age / 60)} minutes old. Is supac watch still running?`;
    }
    const busy = !state.follow || document.hidden || Date.now() - touched < 1500;
    if (busy) return setTimeout(due, 500);
    save();
    location.reload();
  };
  if (live) setTimeout(due, interval);
  addEventListener("pagehide", save);
})();
