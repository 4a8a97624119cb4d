// The page: one question at a time, what is known, actions and keys.

import { $, banner, make, number, refused, say } from "./common.js";

const DONE = { keep: "Kept", drop: "Dropped", skip: "Unsure about", undo: "Undone:", remove: "Removed", complete: "Added", swap: "Swapped", target: "Changed", rule: "Rule:" };
const DONE_SUGGESTED = { ...DONE, keep: "Added", drop: "Rejected" };
const KEYS = { k: () => decide("keep"), d: () => decide("drop"), s: () => decide("skip"), x: swap, u: undo };
// A second press could hit the next question, which the person has not seen yet.
const NEVER_WAITS = ["keep", "drop", "skip", "swap"];
const POLL_MS = 3000;
// With fewer answers, the bounds of the number of wrong tags are too wide to be of use.
const MOST_VAGUE = 10;

let state = null;
// What to ask next.
let order = "first";
// The action under way: a promise, or null.
let busy = null;
// Number of pending requests for the state, and the number of the last one: older responses are ignored.
let asking = 0;
let turn = 0;

const percent = (share) => `${Math.round(100 * share)}%`;
const tags = (count, more = "") => `${number(count)}${more} ${count === 1 ? "tag" : "tags"}`;

function show(next) {
  const before = state && state.current;
  const seqBefore = state && state.seq;
  const { current, last } = next;
  // Responses to pending requests are older than this state.
  turn += 1;
  state = next;
  showKnown(next.known);
  showProgress(next);
  $("card").hidden = !current;
  $("done").hidden = !!current;
  $("question").textContent = !current ? "Review tags" : current.suggested ? "Is this tag missing?" : "Is this tag correct?";
  if (current) showCurrent(current, before);
  const { certificate } = next.known;
  const reached = order === "certify" && certificate && certificate.certified;
  $("done").firstElementChild.textContent = reached ? "The certificate holds" : "No questions are left in this order";
  $("table").textContent = `whole table (${next.table.slice(1)})`;
  for (const id of ["keep", "drop", "skip"]) $(id).disabled = !current;
  $("rules").hidden = !next.vocabulary.accepted;
  const open = next.vocabulary.open + next.vocabulary.more;
  say(open ? `Vocabulary (${number(open)} open)` : "Vocabulary", "room");
  if ($("labels").open && seqBefore !== next.seq) refreshLabels();
  $("undo").disabled = !last;
  $("undo").title = last ? `Undo ${described(last)}` : "";
}

// What the answers say and allow, and what to ask next.
function showKnown(known) {
  const { first, certificate, remove, complete } = known;
  // After the first questions come the most suspicious tags.
  const off = { first: first.listed.answered >= first.listed.size, suggested: !first.missing.size, swaps: !known.swaps, certify: !certificate };
  if (off[order]) order = "suspicious";
  for (const option of $("order").options) option.disabled = !!off[option.value];
  $("order").value = order;
  say(known.line, "known-line");
  $("voices").hidden = !known.voices.length;
  $("voices").replaceChildren(...known.voices.map((sentence) => make("li", {}, sentence)));
  const added = known.added && `${tags(known.added)} ${known.added === 1 ? "is" : "are"} added.`;
  const share = `at a target precision of ${percent(known.precision)}`;
  const words = order === "suggested" ? [added] : [removedSentence(known), added, certificate && certificate.words];
  say(words.filter(Boolean).join(" "), "removed-line");
  const again = certificate ? `Remove ${tags(remove.new, " more")} ${share}, for a new certificate` : "";
  // A slip must not change the set of a certificate in progress.
  const certifies = order === "certify" && certificate && !certificate.certified;
  offer("remove", !certifies && remove.new, again || `Remove ${tags(remove.new)} ${share}`);
  offer("complete", complete.new, `Add ${tags(complete.new)} ${share}`);
  showTargets(known);
  showMissing(known, off.suggested);
}

// How many tags are removed and, if there are several reasons or a rule, why.
function removedSentence({ removed, dropped, by_rule: byRule }) {
  if (!removed) return "";
  const others = removed - dropped - byRule;
  const count = (value) => (value === removed ? "all" : number(value));
  const reasons = [
    dropped && `${number(dropped)} that you called wrong`,
    byRule && `${count(byRule)} by your rule`,
    others && `${number(others)} because of your other answers`,
  ].filter(Boolean);
  const why = byRule || reasons.length > 1 ? `: ${reasons.join(", ")}` : "";
  return `${tags(removed)} ${removed === 1 ? "is" : "are"} removed${why}.`;
}

// Tags that the model expects in rows that do not list them.
function showMissing({ missing }, off) {
  $("missing").hidden = !missing.count || off;
  const examples = missing.labels.map(([label, count]) => `${label} (${number(count)})`).join(", ");
  const more = missing.labels.reduce((sum, [, count]) => sum + count, 0) < missing.count ? ", and others" : "";
  const words = missing.count === 1 ? "1 tag probably belongs" : `${number(missing.count)} tags probably belong`;
  say(`According to the model, ${words} to rows that do not list ${missing.count === 1 ? "it" : "them"} (number of rows in brackets): ${examples}${more}. Nothing is added before you answer.`, "missing-line");
  $("ask-missing").hidden = order === "suggested";
}

// What is known about all tags of a name, and the buttons that decide them.
const RULES = { keep: "Keep all", drop: "Drop all", ask: "Ask me" };
const MOST_ROWS = 100;
let labels = [];

async function refreshLabels() {
  try {
    const response = await fetch("/api/labels");
    if (!response.ok) return void (await refused(response));
    labels = await response.json();
    showLabels();
  } catch (error) {
    banner("The server is not responding; it may have been stopped. All confirmed decisions are saved.", true);
  }
}

function showLabels() {
  const wanted = $("filter").value.trim().toLowerCase();
  const found = labels.filter(({ label }) => label.toLowerCase().includes(wanted));
  const shown = found.slice(0, MOST_ROWS);
  const hidden = found.length - shown.length;
  const isHidden = labels.some(({ suspicious }) => suspicious === null);
  const caption = [
    "Rows: how many rows list the tag.",
    isHidden
      ? "Suspicious: shown after the first questions, so that it does not sway your answers."
      : "Suspicious: how many of these rows, not answered yet, are more likely wrong than right.",
    "Answered: rows that somebody called right or wrong. Wrong so far: how many of those were wrong.",
    hidden ? `${number(hidden)} more tags are not shown; find one by its name.` : "",
  ];
  say(caption.filter(Boolean).join(" "), "labels-caption");
  const active = document.activeElement && document.activeElement.dataset;
  const focus = active && active.rule && { label: active.label, rule: active.rule };
  $("label-rows").replaceChildren(...shown.map(labelRow));
  if (!focus) return;
  const again = [...$("label-rows").querySelectorAll("button")];
  const button = again.find(({ dataset }) => dataset.label === focus.label && dataset.rule === focus.rule);
  if (button) button.focus();
}

function labelRow(line) {
  const count = (value) => make("td", { className: "count" }, value === null ? "–" : number(value));
  const name = make("th", { scope: "row" }, line.label);
  const cells = [line.rows, line.suspicious, line.answered, line.wrong].map(count);
  const buttons = make("td", {}, ...(line.fixed ? ["kept by the vocabulary"] : Object.keys(RULES).map((rule) => ruleButton(line, rule))));
  return make("tr", {}, name, ...cells, buttons);
}

function ruleButton(line, rule) {
  const button = make("button", { type: "button", className: rule === "keep" ? "good" : rule === "drop" ? "bad" : "" }, RULES[rule]);
  button.dataset.label = line.label;
  button.dataset.rule = rule;
  button.setAttribute("aria-pressed", String(line.rule === rule));
  button.setAttribute("aria-label", `${RULES[rule]}: ${line.label}`);
  button.addEventListener("click", () => {
    if (line.rule !== rule) act({ action: "rule", label: line.label, rule }, ruleWords(line.label, rule));
  });
  return button;
}

function ruleWords(label, rule) {
  return { keep: `keep every ${label}`, drop: `drop every ${label}`, ask: `ask about ${label}` }[rule];
}

// What each target would do; it may be changed at any time.
function showTargets({ trade_off: lines, precision, answers, by_rule: byRule }) {
  $("targets").hidden = !lines.length;
  if (!lines.length) return;
  const targets = lines.some((line) => line.precision === precision) ? lines : [{ precision }, ...lines];
  const chosen = targets.find((line) => line.precision === precision);
  const { removed, right, left } = chosen;
  const parts = [];
  const besides = byRule ? ` besides ${number(byRule)} by your rule` : "";
  if (removed !== undefined) parts.push(`${tags(removed)} would go${besides}`);
  if (removed && right) parts.push(`${percent(right)} of ${byRule ? "these" : "them"} correctly`);
  const isVague = answers < MOST_VAGUE;
  if (left && !isVague) parts.push(`${bounds(left)} wrong tags would stay`);
  const more = isVague ? "answer more to learn how many wrong tags would stay" : "";
  const effect = [parts.join(", "), more].filter(Boolean).join("; ");
  say([`Target ${percent(precision)}`, effect].filter(Boolean).join(": "), "target-line");
  const most = Math.max(1, ...lines.map((line) => line.removed));
  const active = document.activeElement;
  const focus = active && active.name === "target" && active.value;
  const shown = isVague ? targets.map((line) => ({ ...line, left: null })) : targets;
  $("target-rows").replaceChildren(...shown.map((line) => targetRow(line, line.precision === precision, most)));
  const again = focus && $("target-rows").querySelector(`input[value="${focus}"]`);
  if (again) again.focus();
}

// Bounds of an estimate, with no more digits than it has.
function bounds(range) {
  const [low, high] = range.map((value) => number(Number(Math.round(value).toPrecision(2))));
  return low === high ? low : `${low} to ${high}`;
}

function targetRow({ precision: target, removed, right, left }, isChosen, most) {
  const radio = make("input", { type: "radio", name: "target", value: target, checked: isChosen });
  radio.addEventListener("change", () => act({ action: "target", precision: target }, `the target to ${percent(target)}`));
  const name = make("th", { scope: "row" }, make("label", {}, radio, ` ${percent(target)}`));
  const bar = make("span", { className: "bar" });
  bar.style.width = `${(94 * (removed || 0)) / most}%`;
  const count = (value) => (value === undefined || value === null ? "–" : number(Math.round(value)));
  const share = removed && right ? percent(right) : "–";
  return make("tr", {}, name, make("td", { className: "count bars" }, bar, make("span", {}, count(removed))), make("td", { className: "count" }, share), make("td", { className: "count" }, left ? bounds(left) : "–"));
}

function offer(id, count, words) {
  $(id).hidden = !count;
  $(id).textContent = words;
}

function showProgress({ progress, known }) {
  const steps = { first: known.first.listed, suggested: known.first.missing }[order];
  const step = steps && steps.answered < steps.size && steps;
  const { asked, more } = (order === "certify" && known.certificate) || {};
  const bar = $("bar");
  // Nobody decides all tags, so there is a bar only where the end is near.
  bar.hidden = !step && !more;
  bar.max = step ? step.size : asked + more || 1;
  bar.value = step ? step.answered : asked || 0;
  const counts = [`${number(progress.decided)} of ${number(progress.total)} tags decided`];
  if (progress.suggested) counts.push(`${number(progress.suggested)} may be missing`);
  if (progress.skipped) counts.push(`${number(progress.skipped)} unsure`);
  $("counts").textContent = step ? `${step.answered} of ${step.size} questions answered` : counts.join(" · ");
}

function showCurrent(current, before) {
  $("label").textContent = current.label;
  $("text").textContent = current.text || (current.image ? "" : "(no text)");
  $("item").textContent = current.item;
  const names = current.suggested ? ["Add", "Reject"] : ["Keep", "Drop"];
  $("keep").firstElementChild.textContent = names[0];
  $("drop").firstElementChild.textContent = names[1];
  $("swap").hidden = !current.swap;
  $("swap").firstElementChild.textContent = current.swap ? `Swap: drop ${current.label}, add ${current.swap}` : "";
  // Nothing is known about tags that were not judged.
  $("opinion").hidden = current.confidence === null;
  if (current.confidence !== null) showOpinion(current);
  $("check").hidden = !current.check;
  $("earlier").hidden = !current.earlier;
  $("earlier").textContent = current.earlier ? `Before the row changed, ${current.earlier}.` : "";
  $("tags").replaceChildren(...current.tags.map(chip));
  $("columns").hidden = !current.others.length;
  $("columns").replaceChildren(...current.others.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  if (!before || before.item !== current.item) {
    $("text").scrollTop = 0;
    $("picture").hidden = !current.image;
    $("card").classList.toggle("with-image", !!current.image);
    $("picture").replaceChildren(...(current.image ? [picture(current)] : []));
  }
  // A long text must also be reachable and scrollable by keyboard.
  $("text").tabIndex = $("text").scrollHeight > $("text").clientHeight ? 0 : -1;
}

function showOpinion({ confidence, suggested }) {
  const source = state.known.answers ? "Based on the answers so far" : "According to the model, which has not been checked";
  const opinion = `${source}, this tag is ${percent(confidence)} likely to be correct${suggested ? ", although nobody assigned it" : ""}.`;
  $("verdict").textContent = opinion;
  $("scale").setAttribute("aria-label", opinion);
  $("needle").style.left = `${100 * confidence}%`;
}

function picture({ row, item, image, has_image }) {
  const absent = make("p", { className: "no-image" }, `Image ${image} cannot be shown`);
  if (!has_image) return absent;
  const shown = make("img", { src: `/image/${row}`, alt: `Image ${image} of item ${item}` });
  shown.addEventListener("error", () => shown.replaceWith(absent));
  return make("a", { href: `/image/${row}`, target: "_blank", rel: "noopener" }, shown);
}

function chip(tag) {
  const kind = tag.current ? "now" : tag.kept ? "" : "out";
  const spoken = { now: " (the tag in question)", out: " (removed)" }[kind] || "";
  const absent = tag.current && state.current.suggested ? " absent" : "";
  return make("li", { className: `tag ${kind}${absent}` }, tag.label, make("span", { className: "hidden" }, spoken));
}

// The last action in a few words.
function described(last) {
  if (last.words) return last.words;
  if (last.action === "swap") return `swap of ${last.label} for ${last.to}`;
  if (last.action === "remove") return `removal of ${tags(last.count)}`;
  if (last.action === "complete") return `addition of ${tags(last.count)}`;
  if (last.action === "rule") return `rule to ${ruleWords(last.label, last.rule)}`;
  if (last.action === "target") return `target of ${percent(last.precision)}`;
  return `${last.action} ${last.label}`;
}

function decide(action) {
  const current = state && state.current;
  if (current) return act({ action, item: current.item, label: current.label }, current.label, current.suggested);
}

function swap() {
  const { item, label, swap: to } = (state && state.current) || {};
  if (to) return act({ action: "swap", item, label, to }, `${label} for ${to}`);
}

async function undo() {
  // Wait for a pending action: it is what to undo, unless the server refuses it.
  while (busy) if (!(await busy)) return;
  const last = state && state.last;
  if (last) return act({ action: "undo", of: last.of }, described(last));
}

async function act(body, label, suggested) {
  if (busy && NEVER_WAITS.includes(body.action)) return false;
  while (busy) await busy;
  busy = perform(body, label, suggested);
  const done = await busy;
  busy = null;
  return done;
}

async function perform(body, label, suggested) {
  turn += 1;
  try {
    const response = await fetch("/api/decide", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ ...body, seen: state.seq, order }),
    });
    if (response.ok) {
      banner("");
      show(await response.json());
      const { current } = state;
      const next = current ? `Next: ${current.label}? ${current.text.slice(0, 200)}` : "No questions are left.";
      say(`${(suggested ? DONE_SUGGESTED : DONE)[body.action]} ${label}. ${next}`);
      return true;
    }
    if (response.status === 409) {
      const answer = await response.json();
      show(answer.state);
      banner(`${answer.error} The page is up to date again.`);
    } else await refused(response);
  } catch (error) {
    banner("The server is not responding, so your last decision is not confirmed. Start schirn review again.", true);
  }
  return false;
}

// Ask for the state: every few seconds, and after the order has changed.
async function refresh(wanted) {
  if ((busy || asking || document.hidden) && wanted !== true) return;
  const mine = (turn += 1);
  asking += 1;
  try {
    const response = await fetch(`/api/state?${new URLSearchParams({ order })}`);
    if (!response.ok) return void (await refused(response));
    const next = await response.json();
    if (turn !== mine) return;
    const elsewhere = state && next.seq !== state.seq && wanted !== true;
    if (JSON.stringify(next) !== JSON.stringify(state)) show(next);
    if (elsewhere) banner("A decision was made in another tab; the page is up to date again.");
    else if ($("banner").classList.contains("bad")) banner("");
  } catch (error) {
    banner("The server is not responding; it may have been stopped. All confirmed decisions are saved.", true);
  } finally {
    asking -= 1;
  }
}

document.addEventListener("keydown", (event) => {
  const key = (event.key || "").toLowerCase();
  const modified = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || event.repeat;
  if (modified || !$("keys").checked || !state) return;
  const field = event.target.matches("select, input[type=search]");
  if (field && key === "escape") event.target.blur();
  if (field || !KEYS[key]) return;
  event.preventDefault();
  KEYS[key]();
});
for (const action of ["keep", "drop", "skip"]) $(action).addEventListener("click", () => decide(action));
for (const action of ["remove", "complete"]) {
  $(action).addEventListener("click", () => {
    const { count, new: more } = state.known[action];
    act({ action, count }, tags(more, more < count ? " more" : ""));
  });
}
$("undo").addEventListener("click", undo);
$("swap").addEventListener("click", swap);
$("order").addEventListener("change", () => {
  order = $("order").value;
  $("question").focus();
  refresh(true);
});
$("ask-missing").addEventListener("click", () => {
  order = "suggested";
  $("question").focus();
  window.scrollTo(0, 0);
  refresh(true);
});
$("labels").addEventListener("toggle", () => $("labels").open && refreshLabels());
$("filter").addEventListener("input", showLabels);
document.addEventListener("visibilitychange", refresh);
setInterval(refresh, POLL_MS);
refresh();
