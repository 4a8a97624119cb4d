// The page: its state, its views, actions and keys.

import { $, app, banner, forgetTags, number, percent, post, refused, say, storeName, storedName, turn } from "./dom.js";
import { chosenTag, connect, listKey, loadBatch, renamed, search, showPeople, showTags } from "./lists.js";
import { openHelp, openRename } from "./panels.js";
import { closeNote, closeWhy, moveTag, openNote, showCurrent, showWhy } from "./question.js";

const ACTIONS = { k: "keep", d: "drop", s: "skip" };
const ACTIONS_OF_A_TAG = { keep: 1, drop: 1, skip: 1 };
const DONE = { keep: "Kept", drop: "Dropped", skip: "Skipped", undo: "Undone:", add: "Added", rename: "Renamed", note: "Noted:", remove: "Removed", complete: "Added", swap: "Swapped", settle: "Settled", batch: "Decided" };
const DONE_SUGGESTED = { ...DONE, keep: "Added", drop: "Rejected" };
const TITLES = { tags: "Tags", search: "Search", people: "People" };
const VIEWS = ["one", "tags", "search", "people"];
// Decisions about what the page shows: pressed twice, the second may be meant for what comes next, which nobody has seen.
const NEVER_WAITS = ["keep", "drop", "skip", "swap", "batch", "settle"];
const POLL_MS = 3000;

// The token is in a cookie now; without it in the address bar nobody copies it by mistake.
if (location.search) history.replaceState(null, "", "/");

function show(next) {
  const before = app.state && app.state.current;
  // Whatever is still under way is older than this.
  turn("state");
  if (app.state && app.state.seq !== next.seq) forgetTags();
  app.state = next;
  showKnown(next.known);
  showProgress(next);
  $("card").hidden = !next.current;
  $("done").hidden = !!next.current;
  $("done-title").textContent = app.second ? "No second opinions are left to give" : "Nothing is left to ask in this order";
  if (next.current) showCurrent(next.current, before, (tag) => choose(next.current.item, tag.label));
  $("chosen").hidden = !app.chosen;
  $("disputed").hidden = !next.disagreements;
  $("disputed").textContent = number(next.disagreements);
  $("table").hidden = $("table-dot").hidden = !next.table;
  $("table").textContent = next.table ? `whole table (${next.table.slice(1)})` : "";
  showTitle();
  enable();
}

function showTitle() {
  const { current } = app.state;
  const asked = current && current.suggested ? "Is this tag missing?" : "Is this tag correct?";
  $("question").textContent = TITLES[app.view] || asked;
}

// What the answers say and allow, and what to ask next.
function showKnown(known) {
  const { first, certificate } = known;
  // After the first questions come the most suspicious tags.
  if (app.order === "first" && first.listed.answered >= first.listed.size) app.order = "suspicious";
  if ((app.order === "certify" && !certificate) || (app.order === "swaps" && !known.swaps)) app.order = "suspicious";
  say(known.line, "known-line");
  const removed = known.removed && `${tags(known.removed)} ${known.removed === 1 ? "is" : "are"} removed.`;
  say([removed, certificate && certificate.words].filter(Boolean).join(" "), "removed-line");
  const share = `with ${percent(known.precision)} precision`;
  const { remove, complete } = known;
  const again = certificate ? `Remove ${tags(remove.new, " more")} ${share}, for a new certificate` : "";
  // A certificate under way must not lose its set by a slip.
  const busy = app.order === "certify" && certificate && !certificate.certified;
  offer("remove", !busy && remove.new, again || `Remove the ${tags(remove.new)} that ${remove.new === 1 ? "is" : "are"} wrong ${share}`);
  offer("complete", complete.new, `Add the ${tags(complete.new)} that ${complete.new === 1 ? "is" : "are"} missing ${share}`);
  const disabled = { first: first.listed.answered >= first.listed.size, suggested: !first.missing.size, swaps: !known.swaps, certify: !certificate };
  for (const option of $("order").options) option.disabled = !!disabled[option.value];
  $("order").value = app.order;
}

function tags(count, more = "") {
  return `${number(count)}${more} ${count === 1 ? "tag" : "tags"}`;
}

function offer(id, count, words) {
  $(id).hidden = !count;
  $(id).textContent = words;
}

function showProgress({ progress, known }) {
  const steps = { first: known.first.listed, suggested: known.first.missing }[app.order];
  const asking = steps && steps.answered < steps.size && steps;
  const { asked, more } = (app.order === "certify" && known.certificate) || {};
  const bar = $("bar");
  // Nobody decides all tags, so there is a bar only where the end is near.
  bar.hidden = !asking && !more;
  bar.max = asking ? asking.size : asked + more || 1;
  bar.value = asking ? asking.answered : asked || 0;
  const counts = [`${number(progress.decided)} of ${number(progress.total)} tags decided`];
  if (progress.suggested) counts.push(`${number(progress.suggested)} may be missing`);
  if (progress.skipped) counts.push(`${number(progress.skipped)} unsure`);
  $("counts").textContent = asking ? `${asking.answered} of ${asking.size} questions answered` : counts.join(" · ");
}

function enable() {
  const { state, view } = app;
  for (const id of ["keep", "drop", "skip"]) {
    $(id).disabled = !(state && state.current);
    $(id).hidden = view !== "one";
  }
  $("undo").disabled = !(state && state.last);
  const last = state && state.last;
  $("undo").firstElementChild.textContent = view === "one" || !last ? "Undo" : `Undo ${described(last)}`;
  $("undo").title = last ? `Undo ${described(last)}` : "";
  document.querySelector(".actions").classList.toggle("lone", view !== "one");
  $("ask-name").classList.toggle("elsewhere", view === "people");
  for (const button of document.querySelectorAll("#views [data-view]")) {
    if (button.dataset.view === view) button.setAttribute("aria-current", "page");
    else button.removeAttribute("aria-current");
  }
}

// The last action in a few words.
function described(last) {
  if (last.action === "batch") return `${last.decision} ${number(last.count)} × ${last.label}`;
  if (last.action === "rename") return `rename ${last.label} to ${last.to}`;
  if (last.action === "swap") return `swap of ${last.label} for ${last.to}`;
  if (last.action === "remove") return `removal of ${tags(last.count)}`;
  if (last.action === "complete") return `addition of ${tags(last.count)}`;
  return `${last.action} ${last.label || last.item}`;
}

function announce(action, label, suggested) {
  const current = app.state.current;
  const next = current ? `Next: ${current.label}? ${current.text.slice(0, 200)}` : "Nothing is left to ask.";
  const asked = app.view === "one" ? ` ${next}` : "";
  say(`${(suggested ? DONE_SUGGESTED : DONE)[action]} ${label}.${asked}`);
}

function decide(action) {
  const current = app.state && app.state.current;
  if (current) return act({ action, item: current.item, label: current.label }, current.label, current.suggested);
}

function swap() {
  const { item, label, swap: to } = (app.state && app.state.current) || {};
  if (to) return act({ action: "swap", item, label, to }, `${label} for ${to}`);
}

async function undo() {
  // What is under way is what to undo, unless the server refuses it.
  while (app.busy) if (!(await app.busy)) return;
  const last = app.state && app.state.last;
  if (last) return act({ action: "undo", of: last.of }, last.action in ACTIONS_OF_A_TAG ? last.label : described(last));
}

async function act(body, label, suggested) {
  if (app.busy && NEVER_WAITS.includes(body.action)) return false;
  while (app.busy) await app.busy;
  app.busy = perform(body, label, suggested);
  const done = await app.busy;
  app.busy = null;
  await reload();
  return done;
}

async function perform(body, label, suggested) {
  turn("state");
  // What was decided is not what to show next; a note or a new tag leaves the item in place.
  const last = app.state.last;
  const stays = ["add", "note", "rename"].includes(body.action) && app.state.current;
  let done = false;
  try {
    const response = await post(body);
    if (response.ok) {
      banner("");
      const answer = await response.json();
      app.chosen = null;
      if (body.action === "rename") renamed(body.label, body.to);
      if (body.action === "undo" && last.action === "rename") renamed(last.to, last.label);
      if (stays) {
        const label = body.action === "rename" && stays.label === body.label ? body.to : stays.label;
        app.chosen = { item: stays.item, label };
        await refresh(true);
      } else show(answer);
      announce(body.action, label, suggested);
      done = true;
    } else if (response.status === 409) {
      const answer = await response.json();
      app.chosen = null;
      show(answer.state);
      banner(`${answer.error} The page is up to date again.`);
    } else {
      await refused(response);
    }
  } catch (error) {
    banner("The server does not respond, so your last decision is not confirmed. Start schirn review again.", true);
  }
  return done;
}

// Bring the list on the page up to date.
async function reload() {
  if (app.view === "tags") {
    await showTags();
    await loadBatch();
  } else if (app.view === "search") await search();
  else if (app.view === "people") await showPeople();
}

function query() {
  const given = { person: app.person, order: app.order };
  if (app.second) given.second = "1";
  return new URLSearchParams({ ...given, ...app.chosen });
}

let asking = 0;

async function refresh(own) {
  if ((app.busy || asking || document.hidden) && own !== true) return;
  const latest = turn("state");
  asking += 1;
  try {
    const response = await fetch(`/api/state?${query()}`);
    if (!response.ok) return void (await refused(response));
    const next = await response.json();
    if (!latest()) return;
    if (!app.state && begin(next)) return void (await refresh(true));
    const same = app.state && JSON.stringify(next) === JSON.stringify(app.state);
    const elsewhere = app.state && next.seq !== app.state.seq && own !== true;
    if (!same) show(next);
    if (elsewhere) {
      banner("A decision was made in another tab; the page is up to date again.");
      await reload();
    } else if ($("banner").classList.contains("bad")) banner("");
  } catch (error) {
    banner("The server does not respond; it may have been stopped. All confirmed decisions are saved.", true);
  } finally {
    asking -= 1;
  }
}

// The first state tells the name given on the command line; true if the state of that person must be asked for.
function begin(state) {
  $("ask-name").hidden = !!state.name || storedName() !== null;
  if (!state.name || state.name === app.person) return false;
  app.person = state.name;
  $("name").value = state.name;
  return true;
}

async function choose(item, label) {
  app.chosen = { item, label };
  await refresh(true);
  say(`${label}, ${app.state.current ? app.state.current.text.slice(0, 200) : ""}`);
}

async function open(item, label) {
  await choose(item, label);
  go("one");
  $("label").focus();
}

async function back() {
  app.chosen = null;
  await refresh(true);
}

function go(view) {
  const button = document.querySelector(`#views [data-view=${view}]`);
  if (button.disabled) return;
  app.view = view;
  for (const name of VIEWS) $(`view-${name}`).hidden = name !== view;
  showTitle();
  enable();
  reload();
  const first = { tags: "filter", search: "words" }[view] || "question";
  $(first).focus();
}

function rename(label, to) {
  return act({ action: "rename", label, to }, `${label} to ${to}`);
}

function setName(name) {
  storeName(name.trim());
  $("name").value = app.person;
  // A hidden field would keep the focus for a moment, and take the next key.
  if ($("ask-name").contains(document.activeElement)) $("question").focus();
  $("ask-name").hidden = true;
  app.chosen = null;
  refresh(true);
  say(app.person ? `Your decisions are saved under ${app.person}.` : "Your decisions are saved without a name.");
}

const isText = (element) => element.matches("textarea, select, input:not([type=checkbox], [type=range])");
const inOne = {
  s: () => decide("skip"),
  k: () => decide("keep"),
  d: () => decide("drop"),
  x: swap,
  a: () => $("tools").hidden || $("add").focus(),
  n: () => $("tools").hidden || (app.state.current && openNote()),
  w: () => $("tools").hidden || toggleWhy(),
  arrowleft: () => moveTag(-1, (tag) => choose(app.state.current.item, tag.label)),
  arrowright: () => moveTag(1, (tag) => choose(app.state.current.item, tag.label)),
};

function toggleWhy() {
  if (!app.state.current) return;
  if (!$("why").hidden) return closeWhy();
  // Beside a picture, the explanation starts below the visible page.
  showWhy().then(() => $("why").scrollIntoView({ block: "nearest" }));
}

function renameHere() {
  const label = app.view === "tags" ? chosenTag() : app.view === "one" && !$("tools").hidden && app.state.current && app.state.current.label;
  if (label) openRename(label, rename);
}

function escape() {
  if (isText(document.activeElement)) document.activeElement.blur();
  else if (!$("note-form").hidden) closeNote();
  else if (!$("why").hidden) closeWhy();
  else if (app.chosen) back();
  else if (app.view !== "one") go("one");
}

document.addEventListener("keydown", (event) => {
  const key = (event.key || "").toLowerCase();
  const modified = event.ctrlKey || event.metaKey || event.altKey || event.repeat;
  if (modified || !$("keys").checked || !app.state || document.querySelector("dialog[open]")) return;
  if (key === "escape") return escape();
  // From the field of the search, the arrow leads to what was found.
  const leaves = key === "arrowdown" && ["words", "filter"].includes(event.target.id);
  if (isText(event.target) && !leaves) return;
  const arrow = key.startsWith("arrow");
  if (arrow && !leaves && event.target.matches("input, .text, .scroll")) return;
  if (listKey(key, event.shiftKey)) return void event.preventDefault();
  const everywhere = { u: undo, "/": () => go("search"), "?": openHelp, r: renameHere };
  const one = app.view === "one" && !event.shiftKey && inOne[key];
  const act = everywhere[key] || one || (key in { 1: 1, 2: 1, 3: 1, 4: 1 } && (() => go(VIEWS[key - 1])));
  if (!act) return;
  event.preventDefault();
  act();
});

connect({ act, open });
for (const action of Object.values(ACTIONS)) $(action).addEventListener("click", () => decide(action));
$("undo").addEventListener("click", undo);
$("swap").addEventListener("click", swap);
$("back").addEventListener("click", back);
$("why-button").addEventListener("click", toggleWhy);
$("rename-button").addEventListener("click", renameHere);
$("batch-rename").addEventListener("click", renameHere);
$("note-button").addEventListener("click", () => ($("note-form").hidden ? openNote() : closeNote()));
$("note-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const { item, label } = app.state.current;
  const about = $("note-about").value === "tag" ? label : "";
  if (await act({ action: "note", item, label: about, text: $("note").value.trim() }, about || `item ${item}`)) {
    closeNote();
    $("note-button").focus();
  }
});
$("add-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const label = $("add").value.trim();
  if (label && (await act({ action: "add", item: app.state.current.item, label }, label))) $("add").value = "";
});
for (const action of ["remove", "complete"]) {
  $(action).addEventListener("click", () => {
    const { count } = app.state.known[action];
    act({ action, count }, tags(count));
  });
}
$("order").addEventListener("change", () => {
  app.order = $("order").value;
  app.chosen = null;
  go("one");
  refresh(true);
});
$("second").addEventListener("change", () => {
  app.second = $("second").checked;
  app.chosen = null;
  refresh(true);
});
$("name-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setName($("name").value);
});
$("ask-name").addEventListener("submit", (event) => {
  event.preventDefault();
  setName($("first-name").value);
});
$("no-name").addEventListener("click", () => setName(""));
for (const button of document.querySelectorAll("#views [data-view]")) button.addEventListener("click", () => go(button.dataset.view));
document.addEventListener("visibilitychange", refresh);
setInterval(refresh, POLL_MS);
app.person = storedName() || "";
$("name").value = app.person;
enable();
refresh();
