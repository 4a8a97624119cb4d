// The vocabulary: one line at a time, with examples; answers, undo, and the list of all lines.

import { $, banner, make, number, refused, say } from "./common.js";

const SIGN = { merge: "→", imply: "⇒", exclude: "≠" };
const STATUS = {
  accepted: "You accepted this line.",
  rejected: "You rejected this line.",
  settled: "Other answers leave nothing to decide here.",
  open: "",
};
const KEYS = { y: () => answer("yes"), n: () => answer("no"), s: later, u: undo, x: turn };
// A name may be typed slowly.
const TYPING_MS = 150;

let state = null;
// The answer under way: a promise, or null.
let busy = null;
// Number of the last request for the state: earlier answers are not wanted.
let latest = 0;
let typing = null;

const lines = (count) => `${number(count)} ${count === 1 ? "line" : "lines"}`;
const rows = (count) => `${number(count)} ${count === 1 ? "row" : "rows"}`;

function words(line) {
  const sign = SIGN[line.action];
  return sign ? `${line.tag} ${sign} ${line.target}` : line.tag;
}

function show(next) {
  const before = state && state.current;
  state = next;
  const { counts, current, last } = next;
  const answered = counts.accepted + counts.rejected - next.applied;
  const total = answered + counts.open;
  $("bar").max = total || 1;
  $("bar").value = answered;
  $("bar").hidden = !total;
  const parts = [`${number(answered)} of ${lines(total)} answered`];
  if (counts.more) parts.push(`${number(counts.more)} more to look for afterwards`);
  if (counts.settled) parts.push(`${number(counts.settled)} settled by other answers`);
  say(total ? parts.join(" · ") : "", "counts");
  const accepted = counts.accepted - next.applied;
  const effect = accepted ? `${lines(accepted)} accepted: ${rows(next.rows_changed)} will change when you write the table.` : "Nothing is changed before you accept a line, and then only when you write the table.";
  say(effect, "known-line");
  const applied = next.applied ? `${lines(next.applied)} ${next.applied === 1 ? "was" : "were"} applied before the tags were ranked. ` : "";
  const rank = accepted ? "The ranking still has the old names: to rank the tags under the new ones, download the vocabulary and start a review with it." : "";
  say(applied + rank, "ranked-line");
  $("ranked-line").hidden = !(applied + rank);
  $("card").hidden = !current;
  $("done").hidden = !!current;
  if (current) showCurrent(current, before);
  else showDone(total);
  for (const id of ["accept", "reject"]) $(id).disabled = !current || current.applied;
  $("later").disabled = !current || counts.open < (current.status === "open" ? 2 : 1);
  $("undo").disabled = !last;
  $("undo").title = last ? `Undo ${described(last)}` : "";
  showLines();
}

function showDone(total) {
  say("The list of tags", "question");
  const [title, text] = $("done").children;
  title.textContent = total ? "All lines are answered" : "There are no proposals yet";
  text.textContent = total
    ? "Look for more proposals, or go back to the tags of rows."
    : "The program compares the tags by their spelling, by the texts of their rows, and by how often they occur together. Nothing is changed.";
}

function showCurrent(line, before) {
  const isNew = !before || before.number !== line.number || words(before) !== words(line);
  say(line.question, "question");
  $("action").textContent = `Line ${line.number}: ${line.action}`;
  $("status").textContent = line.applied ? "" : STATUS[line.status];
  const sign = SIGN[line.action];
  const title = sign ? [line.tag, make("span", { className: "arrow" }, sign), line.target] : [line.tag];
  $("label").replaceChildren(...title);
  $("effect").textContent = line.effect;
  $("evidence").textContent = evidence(line);
  const isOpen = !line.applied;
  $("other").hidden = !isOpen || !["merge", "imply"].includes(line.action);
  $("turn").hidden = line.action !== "merge";
  $("turn").firstElementChild.textContent = `The other way: ${line.target} becomes ${line.tag}`;
  $("target-label").textContent = line.action === "merge" ? "or another name:" : "It implies another tag:";
  if (isNew) {
    $("target").value = "";
    $("names").replaceChildren();
    $("examples").replaceChildren(...line.examples.map(group));
    if (!line.examples.length) $("examples").append(make("p", { className: "where" }, "No row has these tags under these names."));
  }
}

function evidence(line) {
  const counts = line.target
    ? [`${line.tag} in ${rows(line.rows)}`, `${line.target} in ${rows(line.rows_target)}`, `both in ${rows(line.both)}`].join(", ")
    : rows(line.rows);
  const why = line.evidence ? `Why: ${line.evidence}. ` : "";
  const sure = line.confidence === null ? "" : line.sure ? " Proposed with confidence." : " Not certain: look at the rows.";
  return line.rows ? `${why}When proposed: ${counts}.${sure}` : why;
}

function group({ title, rows: examples }) {
  return make("div", {}, make("h3", {}, title), ...examples.map(example));
}

function example({ row, item, text, others, has_image, tags }) {
  const facts = others.map(([name, value]) => `${name}: ${value}`).join(" · ");
  const list = make("ul", { className: "tags" }, ...tags.map(({ label, current }) => make("li", { className: current ? "tag now" : "tag" }, label)));
  list.setAttribute("aria-label", `Tags of item ${item}`);
  const body = make("div", {}, make("p", {}, text || facts || "(no text)"), list, make("p", { className: "where" }, `Item ${item}`));
  const picture = has_image ? [make("img", { src: `/image/${row}`, alt: `Image of item ${item}`, loading: "lazy" })] : [];
  return make("div", { className: "example" }, ...picture, body);
}

function showLines() {
  const shown = state.lines;
  const more = state.hidden ? ` ${lines(state.hidden)} more; enter a tag to find them.` : "";
  say(`${lines(shown.length)} listed.${more}`, "lines-caption");
  const active = document.activeElement && document.activeElement.dataset.line;
  $("rows").replaceChildren(...shown.map(lineButton));
  const button = active && $("rows").querySelector(`[data-line="${active}"]`);
  if (button) button.focus();
}

function lineButton(line) {
  const status = { open: "", accepted: line.applied ? "applied before" : "accepted", rejected: "rejected", settled: "settled" }[line.status];
  const place = [`line ${line.number}`, rows(line.rows), status].filter(Boolean).join(" · ");
  const name = make("span", { className: "words" }, `${line.action} ${words(line)}`);
  const button = make("button", { type: "button" }, name, make("span", { className: "place" }, place));
  button.dataset.line = line.number;
  if (state.current && state.current.number === line.number) button.setAttribute("aria-current", "true");
  button.addEventListener("click", () => {
    refresh({ line: line.number });
    $("label").focus();
    window.scrollTo(0, 0);
  });
  return button;
}

// The last action in a few words; it may be one about a tag of a row.
function described(last) {
  return last.words || [last.action, last.label].filter(Boolean).join(" ");
}

const query = () => ({ show: $("show").value, find: $("filter").value.trim() });

function answer(accept, to) {
  const line = state && state.current;
  if (!line || line.applied || busy) return false;
  const { action, tag, target } = line;
  const done = { yes: "Accepted", no: "Rejected" }[accept];
  const body = { action: "vocabulary", line: { action, tag, target }, accept, ...(to ? { to } : {}) };
  return act(body, `${done}: ${action} ${to ? `${tag}, ${to}` : words(line)}.`);
}

function turn() {
  const line = state && state.current;
  if (line && line.action === "merge") answer("yes", line.tag);
}

function use() {
  const name = $("target").value.trim();
  if (name) answer("yes", name);
  else $("target").focus();
}

function later() {
  if (state && state.current && !$("later").disabled) refresh({ after: state.current.number });
}

async function undo() {
  while (busy) if (!(await busy)) return;
  const last = state && state.last;
  if (last) act({ action: "undo", of: last.of }, `Undone: ${described(last)}.`);
}

async function act(body, done) {
  while (busy) await busy;
  busy = perform(body, done);
  const isSaved = await busy;
  busy = null;
  return isSaved;
}

async function perform(body, done) {
  latest += 1;
  try {
    const response = await fetch("/api/vocabulary", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ...query(), ...body, seen: state.seq }),
    });
    if (response.ok) {
      banner("");
      show(await response.json());
      const { current } = state;
      const next = current ? `Next: ${current.question} ${current.action} ${words(current)}` : "No open line is left.";
      say(`${done} ${next}`);
      return true;
    }
    if (response.status === 409) {
      const { error, state: next } = await response.json();
      show(next);
      banner(`${error} The page is up to date again.`);
    } else await refused(response);
  } catch (error) {
    banner("The server is not responding, so your last answer is not confirmed. Start schirn review again.", true);
  }
  return false;
}

async function refresh(where = {}) {
  if (busy) return;
  const mine = (latest += 1);
  try {
    const response = await fetch(`/api/vocabulary?${new URLSearchParams({ ...query(), ...where })}`);
    if (!response.ok) return void (await refused(response));
    const next = await response.json();
    if (latest === mine) show(next);
  } catch (error) {
    banner("The server is not responding; it may have been stopped. All confirmed answers are saved.", true);
  }
}

// Stays with the line in question.
const again = () => refresh(state && state.current ? { line: state.current.number } : {});

async function propose() {
  const before = state.seq;
  $("propose").disabled = true;
  say("Comparing the tags…", "known-line");
  const isSaved = await act({ action: "propose" }, "Looked for proposals.");
  if (isSaved && state.seq === before) banner("There is nothing new to propose.");
  if (!isSaved) show(state);
  $("propose").disabled = false;
}

async function findNames() {
  const find = $("target").value.trim();
  if (!find) return;
  const response = await fetch(`/api/names?${new URLSearchParams({ find })}`);
  if (!response.ok) return;
  const names = await response.json();
  $("names").replaceChildren(...names.map((name) => make("option", { value: name })));
}

function after(typed) {
  clearTimeout(typing);
  typing = setTimeout(typed, TYPING_MS);
}

document.addEventListener("keydown", (event) => {
  const key = (event.key || "").toLowerCase();
  const modified = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || event.repeat;
  if (modified || !$("keys").checked || !state) return;
  const field = event.target.matches("select, input:not([type=checkbox])");
  if (field && key === "escape") event.target.blur();
  if (event.target === $("target") && key === "enter") use();
  if (field || !KEYS[key]) return;
  event.preventDefault();
  KEYS[key]();
});
$("accept").addEventListener("click", () => answer("yes"));
$("reject").addEventListener("click", () => answer("no"));
$("later").addEventListener("click", later);
$("undo").addEventListener("click", undo);
$("turn").addEventListener("click", turn);
$("use").addEventListener("click", use);
$("target").addEventListener("input", () => after(findNames));
$("propose").addEventListener("click", () => state && propose());
$("show").addEventListener("change", again);
$("filter").addEventListener("input", () => after(again));
document.addEventListener("visibilitychange", () => document.hidden || again());
refresh();
