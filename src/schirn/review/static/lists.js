// Lists of items: all of one tag to decide at once, rows found, and disagreements.

import { $, app, banner, chip, get, make, number, percent, picture, say, tagCounts, turn } from "./dom.js";

// What the batch on the page shows.
const batch = { label: null, cells: [], total: 0 };
const found = { rows: [], total: 0 };
let act = null;
let open = null;

export function connect(actions) {
  act = actions.act;
  open = actions.open;
}

function card(row, extra, ...buttons) {
  const text = row.text || !row.image ? make("p", { class: "excerpt" }, row.text || "(no text)") : null;
  const tags = row.tags && make("ul", { class: "tags" }, ...row.tags.map((tag) => chip(tag, (chosen) => open(row.item, chosen.label))));
  const item = make("li", { class: "card small", tabIndex: 0 }, picture(row), make("p", { class: "where" }, `Item ${row.item}`), ...[text, extra, tags].filter(Boolean));
  if (buttons.length) item.append(make("div", { class: "line" }, ...buttons));
  item.row = row;
  return item;
}

function button(text, kind, act, name) {
  return make("button", { type: "button", class: kind, onclick: act, "aria-label": name }, text);
}

// Redraw a list, and leave the focus where it was.
function fill(list, cards) {
  const held = [...list.children].findIndex((each) => each.contains(document.activeElement));
  list.replaceChildren(...cards);
  if (held >= 0 && cards.length) cards[Math.min(held, cards.length - 1)].focus();
}

export async function showTags() {
  const latest = turn("tags");
  const tags = await tagCounts();
  if (!latest()) return;
  // Somebody else may have renamed it.
  if (!tags.some((tag) => tag.label === batch.label)) {
    batch.label = null;
    $("batch").hidden = true;
    $("batch-none").hidden = false;
  }
  const wanted = $("filter").value.toLowerCase();
  const fits = tags.filter((tag) => tag.label.toLowerCase().includes(wanted)).slice(0, 300);
  const rows = fits.map((tag) => {
    const name = make("button", { type: "button", class: "plain link", onclick: () => chooseTag(tag.label) }, tag.label);
    if (tag.label === batch.label) name.setAttribute("aria-current", "true");
    const counts = [tag.listed, tag.suspicious, tag.removed].map((count) => make("td", {}, number(count)));
    return make("tr", {}, make("th", { scope: "row" }, name), ...counts);
  });
  // A table that has not changed stays, and with it the focus and a click under way.
  const body = $("tag-table").tBodies[0];
  const next = make("tbody", {}, ...rows);
  if (!body.isEqualNode(next)) body.replaceWith(next);
}

export async function chooseTag(label) {
  batch.label = label;
  batch.cells = [];
  await loadBatch();
  showTags();
  $("batch-title").focus();
}

export function chosenTag() {
  return batch.label;
}

// After a rename, the batch goes on under the new name.
export function renamed(from, to) {
  if (batch.label === from) batch.label = to;
}

export async function loadBatch(more) {
  if (batch.label === null) return;
  const latest = turn("batch");
  const offset = more ? batch.cells.length : 0;
  const next = await get("/api/batch", { label: batch.label, show: $("show").value, offset });
  if (!latest()) return;
  $("batch").hidden = !next;
  $("batch-none").hidden = !!next;
  if (!next) return;
  batch.cells = more ? [...batch.cells, ...next.cells].slice(0, 200) : next.cells;
  batch.total = next.total;
  showBatch();
}

function showBatch() {
  const { cells, total, label } = batch;
  const show = $("show").value;
  $("batch-title").textContent = show === "all" ? `${number(total)} × ${label}` : `${number(total)} ${show} ${label}`;
  const suggested = cells.some((cell) => cell.suggested);
  const names = suggested ? ["Add", "Reject"] : ["Keep", "Drop"];
  for (const [id, name, key] of [["keep-all", names[0], "⇧K"], ["drop-all", names[1], "⇧D"]]) {
    $(id).replaceChildren(`${name} ${cells.length === 1 ? "the one" : `all ${number(cells.length)}`} shown `, make("kbd", {}, key));
    $(id).disabled = !cells.length;
  }
  const cards = cells.map((cell) => {
    const words = cell.decision && cell.decision !== "skip" ? `${cell.decision === "keep" ? "kept" : "dropped"} by hand` : "";
    const likely = cell.confidence === null ? "" : `${percent(cell.confidence)} likely to be correct`;
    const extra = make("p", { class: "where" }, [words, likely].filter(Boolean).join(" · "));
    const decide = (action) => act({ action, item: cell.item, label }, label);
    return card(
      cell,
      extra,
      button(names[0], "good", () => decide("keep"), `${names[0]} ${label} of item ${cell.item}`),
      button(names[1], "bad", () => decide("drop"), `${names[1]} ${label} of item ${cell.item}`),
      button("Open", "", () => open(cell.item, label), `Open item ${cell.item}`),
    );
  });
  fill($("batch-cells"), cards);
  $("batch-more").hidden = cells.length >= total || cells.length >= 200;
}

export function decideAll(decision) {
  if (!batch.cells.length) return;
  const rows = batch.cells.map((cell) => cell.row);
  act({ action: "batch", decision, label: batch.label, rows }, `${number(rows.length)} × ${batch.label}`);
}

export async function search(more) {
  const latest = turn("search");
  const offset = more ? found.rows.length : 0;
  const q = $("words").value;
  if (!q.trim()) {
    $("search-rows").replaceChildren();
    $("search-more").hidden = true;
    say("", "search-total");
    return;
  }
  const next = await get("/api/search", { q, scope: $("scope").value, offset });
  if (!next || !latest()) return;
  banner("");
  found.rows = more ? [...found.rows, ...next.rows] : next.rows;
  found.total = next.total;
  say(`${number(next.total)} ${next.total === 1 ? "row" : "rows"} found`, "search-total");
  fill($("search-rows"), found.rows.map((row) => card(row, null)));
  $("search-more").hidden = found.rows.length >= found.total;
}

export async function showPeople() {
  const latest = turn("people");
  const people = await get("/api/people");
  if (!people || !latest()) return;
  app.people = people.people.length;
  const total = people.total === 1 ? "1 disagreement" : `${number(people.total)} disagreements`;
  $("disagreements-title").textContent = people.total ? total : "No disagreements";
  const cards = people.disagreements.map((cell) => {
    const done = { keep: "kept", drop: "dropped" };
    const votes = Object.entries(cell.votes).map(([who, vote]) => `${who || "no name"} ${done[vote]} it`);
    const extra = make("div", {}, make("h3", {}, cell.label), make("p", {}, votes.join(", ")));
    const settle = (decision) => act({ action: "settle", decision, item: cell.item, label: cell.label }, cell.label);
    return card(
      { ...cell, tags: null },
      extra,
      button("Keep", "good", () => settle("keep"), `Settle: keep ${cell.label} of item ${cell.item}`),
      button("Drop", "bad", () => settle("drop"), `Settle: drop ${cell.label} of item ${cell.item}`),
      button("Open", "", () => open(cell.item, cell.label), `Open item ${cell.item}`),
    );
  });
  fill($("disagreements"), cards);
}

const LISTS = { tags: "batch-cells", search: "search-rows", people: "disagreements" };

// The keys of a list: arrows move, K and D decide the item in focus, Enter opens it.
export function listKey(key, shift) {
  const list = $(LISTS[app.view]);
  if (!list) return false;
  const cards = [...list.children];
  const k = cards.findIndex((each) => each.contains(document.activeElement));
  if (app.view === "tags" && shift && (key === "k" || key === "d")) {
    decideAll(key === "k" ? "keep" : "drop");
    return true;
  }
  const steps = { arrowdown: 1, arrowright: 1, arrowup: -1, arrowleft: -1 };
  if (key in steps && cards.length) {
    const next = k < 0 ? 0 : Math.max(0, Math.min(cards.length - 1, k + steps[key]));
    cards[next].focus();
    return true;
  }
  if (k < 0) return false;
  const buttons = cards[k].querySelectorAll(":scope > .line > button");
  if (key === "enter" && document.activeElement === cards[k]) {
    const row = cards[k].row;
    const label = row.label || (row.tags[0] && row.tags[0].label);
    if (label !== undefined) open(row.item, label);
    return true;
  }
  if ((key === "k" || key === "d") && buttons.length) {
    buttons[key === "k" ? 0 : 1].click();
    return true;
  }
  return false;
}

let timer = 0;
$("filter").addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(showTags, 150);
});
$("words").addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(search, 250);
});
$("search-form").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(timer);
  search();
});
$("scope").addEventListener("change", () => search());
$("search-more").addEventListener("click", () => search(true));
$("show").addEventListener("change", () => loadBatch());
$("batch-more").addEventListener("click", () => loadBatch(true));
$("keep-all").addEventListener("click", () => decideAll("keep"));
$("drop-all").addEventListener("click", () => decideAll("drop"));
