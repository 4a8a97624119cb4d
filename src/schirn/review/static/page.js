"use strict";

const $ = (id) => document.getElementById(id);
const ACTIONS = { k: "keep", d: "drop", s: "skip", u: "undo" };
const DONE = { keep: "Kept", drop: "Dropped", skip: "Skipped", undo: "Undone:" };
const DONE_SUGGESTED = { ...DONE, keep: "Added", drop: "Rejected" };
const POLL_MS = 3000;

let state = null;
let busy = false;

// The token is in a cookie now; without it in the address bar nobody copies it by mistake.
if (location.search) history.replaceState(null, "", "/");

function percent(share) {
  return `${Math.round(100 * share)}%`;
}

function number(count) {
  return count.toLocaleString("en");
}

function show(next) {
  const before = state && state.current;
  state = next;
  showProgress(state.progress);
  showAudit(state.audit);
  showTraining(state.training);
  $("card").hidden = !state.current;
  $("done").hidden = !!state.current;
  if (state.current) showCurrent(state.current, before);
  enable();
}

function showAudit(audit) {
  $("audit").hidden = !audit;
  $("certificate").hidden = !(audit && audit.certificate);
  if (!audit) return;
  const blind = "These tags are drawn at random. What the model thinks of them is hidden, so that it does not sway you.";
  const none = "The audit is complete, but no answer is about a tag to remove, so nothing is certified.";
  const more = audit.more_answers_needed ? ` About ${number(audit.more_answers_needed)} more answers would certify what you asked for.` : "";
  const done = audit.certificate ? `${audit.certificate}.${more}` : none;
  const words = audit.done ? done : blind;
  if ($("audit-words").textContent !== words) $("audit-words").textContent = words;
}

function showCurrent(current, before) {
  $("question").textContent = current.suggested ? "Is this tag missing?" : "Is this tag correct?";
  $("label").textContent = current.label;
  $("text").textContent = current.text || "(no text)";
  $("item").textContent = current.item;
  const names = current.suggested ? ["Add", "Reject"] : ["Keep", "Drop"];
  $("keep").firstElementChild.textContent = names[0];
  $("drop").firstElementChild.textContent = names[1];
  $("skip").firstElementChild.textContent = current.audit ? "Unsure" : "Skip";
  $("opinion").hidden = current.confidence === null;
  if (current.confidence !== null) showOpinion(current);
  $("tags").replaceChildren(...current.tags.map(chip));
  if (!before || before.item !== current.item) $("text").scrollTop = 0;
  // A long text must also be reachable and scrollable by keyboard.
  $("text").tabIndex = $("text").scrollHeight > $("text").clientHeight ? 0 : -1;
}

function showOpinion(current) {
  const likely = `${percent(current.confidence)} likely to be correct`;
  const side = current.kept ? "keep" : "drop";
  const opinion = current.suggested ? `${likely}, although nobody assigned it.` : `${likely}; the model would ${side} it.`;
  $("verdict").textContent = opinion;
  $("scale").setAttribute("aria-label", opinion);
  $("needle").style.left = `${100 * current.confidence}%`;
  $("mark").style.left = `${100 * state.threshold}%`;
}

function chip(tag) {
  const item = document.createElement("li");
  item.classList.add("tag");
  if (tag.current) item.classList.add("now");
  else if (tag.decision === "keep" || tag.decision === "drop") item.classList.add(tag.decision);
  else if (!tag.kept && !tag.suggested) item.classList.add("out");
  if (tag.suggested) item.classList.add("plus");
  const name = document.createElement("span");
  name.className = "name";
  name.textContent = tag.label;
  item.append(name, " ");
  const small = document.createElement("small");
  const words = tag.suggested
    ? { keep: "added by you", drop: "rejected by you" }
    : { keep: "kept by you", drop: "dropped by you" };
  const likely = tag.confidence === null ? "" : percent(tag.confidence);
  small.textContent = words[tag.decision] || (tag.suggested ? `${likely}, suggested` : likely);
  item.append(small);
  const spoken = document.createElement("span");
  spoken.className = "hidden";
  if (tag.current) spoken.textContent = " (the tag in question)";
  else if (!words[tag.decision] && !tag.kept && !tag.suggested) spoken.textContent = " (the model would drop it)";
  item.append(spoken);
  return item;
}

function showProgress(progress) {
  const bar = $("bar");
  const audit = state.audit && !state.audit.done && state.audit;
  const left = progress.doubtful + progress.suggested;
  bar.max = audit ? audit.size : Math.max(1, progress.decided + left);
  bar.value = audit ? audit.answered : progress.decided;
  bar.setAttribute("aria-label", audit ? "Tags of the audit checked" : "Doubtful tags decided");
  const counts = [`${number(progress.decided)} decided`];
  if (state.current && !left) counts.push("no doubtful tags left, so you can stop");
  else counts.push(`${number(progress.doubtful)} doubtful left`);
  if (progress.suggested) counts.push(`${number(progress.suggested)} suggested`);
  if (progress.skipped) counts.push(`${number(progress.skipped)} skipped`);
  counts.push(`${number(progress.total)} tags in total`);
  $("counts").textContent = audit ? audit.words : counts.join(" · ");
}

function showTraining(training) {
  const rest = training.waiting === 1 ? "1 more decision" : `${training.waiting} more decisions`;
  const next = ` The next training starts after ${rest}.`;
  const texts = {
    off: `The model is not retrained. ${training.message}`,
    idle: `The model learns from your decisions.${next}`,
    running: `The model is being trained in the background; you can continue. ${training.message}`,
    done: `The model was trained on your decisions.${next}`,
    failed: `Training failed (${training.message}). Your decisions are safe.${next}`,
  };
  const text = texts[training.status] || "";
  if ($("training").textContent !== text) $("training").textContent = text;
}

function enable() {
  const open = !!(state && state.current);
  for (const id of ["keep", "drop", "skip"]) $(id).disabled = !open;
  $("undo").disabled = !(state && state.last);
}

function banner(text, bad) {
  $("banner").textContent = text;
  $("banner").hidden = !text;
  $("banner").classList.toggle("bad", !!bad);
}

function announce(action, label, suggested) {
  const next = state.current ? `Next: ${state.current.label}? ${state.current.text.slice(0, 200)}` : "All tags are decided.";
  const audit = state.audit && !state.audit.done ? ` ${state.audit.words}.` : "";
  $("live").textContent = `${(suggested ? DONE_SUGGESTED : DONE)[action]} ${label}.${audit} ${next}`;
}

async function decide(action) {
  const target = action === "undo" ? state && state.last : state && state.current;
  if (busy || !target) return;
  busy = true;
  try {
    const body = { action, item: target.item, label: target.label, seen: state.seq };
    const response = await fetch("/api/decide", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    await answered(response, action, target.label, target.suggested);
  } catch (error) {
    banner("The server does not respond, so your last decision is not confirmed. Start schirn review again.", true);
  } finally {
    busy = false;
  }
}

async function answered(response, action, label, suggested) {
  if (response.ok) {
    banner("");
    show(await response.json());
    announce(action, label, suggested);
  } else if (response.status === 409) {
    const answer = await response.json();
    show(answer.state);
    banner(`${answer.error} The page is up to date again.`);
  } else {
    await refused(response);
  }
}

async function refused(response) {
  const json = (response.headers.get("Content-Type") || "").startsWith("application/json");
  banner(json ? (await response.json()).error : await response.text(), true);
}

async function refresh() {
  if (busy || document.hidden) return;
  try {
    const response = await fetch("/api/state");
    if (!response.ok) return void (await refused(response));
    const next = await response.json();
    // The answer to a pending decision is newer than this state.
    if (busy) return;
    const same = state && JSON.stringify(next) === JSON.stringify(state);
    const elsewhere = state && next.seq !== state.seq;
    if (!same) show(next);
    if (elsewhere) banner("A decision was made in another tab; the page is up to date again.");
    else if ($("banner").classList.contains("bad")) banner("");
  } catch (error) {
    banner("The server does not respond; it may have been stopped. All confirmed decisions are saved.", true);
  }
}

document.addEventListener("keydown", (event) => {
  const action = ACTIONS[(event.key || "").toLowerCase()];
  const modified = event.ctrlKey || event.metaKey || event.altKey || event.repeat;
  if (!action || modified || !$("keys").checked) return;
  event.preventDefault();
  decide(action);
});
for (const action of Object.values(ACTIONS)) $(action).addEventListener("click", () => decide(action));
document.addEventListener("visibilitychange", refresh);
setInterval(refresh, POLL_MS);
enable();
refresh();
