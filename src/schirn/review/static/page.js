"use strict";

const $ = (id) => document.getElementById(id);
const ACTIONS = { k: "keep", d: "drop", s: "skip", u: "undo" };
const DONE = { keep: "Kept", drop: "Dropped", skip: "Skipped", undo: "Undone:" };
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
  showTraining(state.training);
  $("card").hidden = !state.current;
  $("done").hidden = !!state.current;
  if (state.current) showCurrent(state.current, before);
  enable();
}

function showCurrent(current, before) {
  $("label").textContent = current.label;
  $("text").textContent = current.text || "(no text)";
  $("item").textContent = current.item;
  const side = current.confidence >= state.threshold ? "keep" : "drop";
  const opinion = `${percent(current.confidence)} likely to be correct; the model would ${side} it.`;
  $("verdict").textContent = opinion;
  $("scale").setAttribute("aria-label", opinion);
  $("needle").style.left = `${100 * current.confidence}%`;
  $("mark").style.left = `${100 * state.threshold}%`;
  $("tags").replaceChildren(...current.tags.map(chip));
  if (!before || before.item !== current.item) $("text").scrollTop = 0;
  // A long text must also be reachable and scrollable by keyboard.
  $("text").tabIndex = $("text").scrollHeight > $("text").clientHeight ? 0 : -1;
}

function chip(tag) {
  const item = document.createElement("li");
  item.classList.add("tag");
  if (tag.current) item.classList.add("now");
  else if (tag.decision === "keep" || tag.decision === "drop") item.classList.add(tag.decision);
  else if (!tag.kept) item.classList.add("out");
  const name = document.createElement("span");
  name.className = "name";
  name.textContent = tag.label;
  item.append(name, " ");
  const small = document.createElement("small");
  const words = { keep: "kept by you", drop: "dropped by you" };
  small.textContent = words[tag.decision] || percent(tag.confidence);
  item.append(small);
  const spoken = document.createElement("span");
  spoken.className = "hidden";
  if (tag.current) spoken.textContent = " (the tag in question)";
  else if (!words[tag.decision] && !tag.kept) spoken.textContent = " (the model would drop it)";
  item.append(spoken);
  return item;
}

function showProgress(progress) {
  const bar = $("bar");
  bar.max = Math.max(1, progress.decided + progress.doubtful);
  bar.value = progress.decided;
  const stop = state.current && !progress.doubtful;
  const left = stop ? "no doubtful tags left, so you can stop" : `${number(progress.doubtful)} doubtful left`;
  const counts = [`${number(progress.decided)} decided`, left];
  if (progress.skipped) counts.push(`${number(progress.skipped)} skipped`);
  counts.push(`${number(progress.total)} tags in total`);
  $("counts").textContent = counts.join(" · ");
}

function showTraining(training) {
  const rest = training.waiting === 1 ? "1 more decision" : `${training.waiting} more decisions`;
  const next = ` The next training starts after ${rest}.`;
  const texts = {
    off: `The model is not retrained. ${training.message}`,
    idle: `The model learns from your decisions.${next}`,
    running: "The model is being trained in the background; you can continue.",
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

function announce(action, label) {
  const next = state.current ? `Next: ${state.current.label}? ${state.current.text.slice(0, 200)}` : "All tags are decided.";
  $("live").textContent = `${DONE[action]} ${label}. ${next}`;
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
    await answered(response, action, target.label);
  } catch (error) {
    banner("The server does not respond, so your last decision is not confirmed. Start schirn review again.", true);
  } finally {
    busy = false;
  }
}

async function answered(response, action, label) {
  if (response.ok) {
    banner("");
    show(await response.json());
    announce(action, label);
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
