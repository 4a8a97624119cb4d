// One question at a time: the item, its tags and columns, notes, and why.

import { $, app, chip, get, make, percent, picture, say, suggestTags } from "./dom.js";

export function showCurrent(current, before, choose) {
  const same = before && before.item === current.item && before.label === current.label;
  $("label").textContent = current.label;
  $("text").textContent = current.text || (current.image ? "" : "(no text)");
  $("item").textContent = current.item;
  const names = current.suggested ? ["Add", "Reject"] : ["Keep", "Drop"];
  $("keep").firstElementChild.textContent = names[0];
  $("drop").firstElementChild.textContent = names[1];
  $("swap").hidden = !current.swap;
  $("swap").firstElementChild.textContent = `Swap: drop ${current.label}, add ${current.swap}`;
  $("opinion").hidden = current.confidence === null;
  if (current.confidence !== null) showOpinion(current);
  showVotes(current);
  const free = !current.blind;
  $("tags").replaceChildren(...current.tags.map((tag) => chip(tag, free ? choose : null)));
  $("tools").hidden = !free;
  $("columns").hidden = !current.others.length;
  $("columns").replaceChildren(...current.others.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  showNotes(current.notes);
  if (!before || before.item !== current.item) {
    $("text").scrollTop = 0;
    const image = picture(current, true);
    $("picture").hidden = !image;
    $("card").classList.toggle("with-image", !!image);
    $("picture").replaceChildren(...(image ? [image] : []));
    $("add").value = "";
  }
  if (!same) {
    closeNote();
    if (!$("why").hidden) showWhy();
  }
  // A long text must also be reachable and scrollable by keyboard.
  $("text").tabIndex = $("text").scrollHeight > $("text").clientHeight ? 0 : -1;
}

function showOpinion(current) {
  const source = app.state.known.answers ? "By the answers so far" : "By the model, which nobody has checked";
  const opinion = `${source}, ${percent(current.confidence)} likely to be correct${current.suggested ? ", although nobody assigned it" : ""}.`;
  $("verdict").textContent = opinion;
  $("scale").setAttribute("aria-label", opinion);
  $("needle").style.left = `${100 * current.confidence}%`;
}

function showVotes(current) {
  const done = { keep: "kept", drop: "dropped", skip: "was unsure about" };
  const votes = Object.entries(current.votes).map(([who, vote]) => `${who || "somebody"} ${done[vote]} it`);
  const words = votes.length ? [`So far, ${votes.join(", ")}.`] : [];
  if (current.earlier) words.push(`Before the row changed, ${current.earlier}.`);
  $("votes").hidden = !words.length;
  $("votes").textContent = words.join(" ");
}

function showNotes(notes) {
  const items = notes.map((note) => {
    const about = [note.label || "item", note.person].filter(Boolean).join(", ");
    return make("li", {}, make("strong", {}, about), " ", note.text);
  });
  $("notes").replaceChildren(...items);
}

export function openNote() {
  $("note-form").hidden = false;
  $("note-button").setAttribute("aria-expanded", "true");
  fillNote();
  $("note").focus();
}

export function closeNote() {
  $("note-form").hidden = true;
  $("note-button").setAttribute("aria-expanded", "false");
}

export function fillNote() {
  const { notes, label } = app.state.current;
  const about = $("note-about").value === "tag" ? label : "";
  const own = notes.find((note) => note.label === about && note.person === app.person);
  $("note").value = own ? own.text : "";
}

export function closeWhy() {
  $("why").hidden = true;
  $("why-button").setAttribute("aria-expanded", "false");
}

export async function showWhy() {
  const { row, item, label } = app.state.current;
  $("why").hidden = false;
  $("why-button").setAttribute("aria-expanded", "true");
  $("why-title").textContent = `Why ${label}?`;
  $("why-summary").textContent = "Comparing this item with the others …";
  $("why-details").replaceChildren();
  const why = await get("/api/why", { item, label });
  const current = app.state.current;
  // The answer may come after the next question.
  if (!current || current.row !== row || current.label !== label) return;
  $("why-summary").textContent = why ? why.summary : "There is no explanation.";
  say(why ? why.summary : "There is no explanation.");
  if (why) $("why-details").replaceChildren(...details(why));
}

function details(why) {
  const parts = [];
  if (why.words.length) {
    const most = Math.max(...why.words.map((word) => Math.abs(word.contribution)));
    parts.push(block("Words and columns", "of a linear model; right speaks for the tag", why.words.map((word) => bar(word.name, word.contribution, most))));
  }
  parts.push(block("Most similar items with this tag", "", why.with_tag.map(similar)));
  parts.push(block("Most similar items without it", "", why.without_tag.map(similar)));
  return parts;
}

function block(title, hint, items) {
  const list = items.length ? make("ul", {}, ...items) : make("p", { class: "where" }, "none");
  return make("div", {}, make("h4", {}, title), hint ? make("p", { class: "where" }, hint) : null, list);
}

function bar(name, value, most) {
  const share = most ? Math.abs(value) / most : 0;
  const fill = make("span", { class: value < 0 ? "fill against" : "fill for" });
  fill.style.width = `${50 * share}%`;
  const spoken = make("span", { class: "hidden" }, value < 0 ? " speaks against it" : " speaks for it");
  return make("li", { class: "bar" }, make("span", { class: "name" }, name), spoken, make("span", { class: "track", "aria-hidden": "true" }, fill));
}

function similar(other) {
  const image = picture(other);
  const text = `${other.text || ""}`.slice(0, 160);
  return make("li", { class: "similar" }, image, make("span", {}, make("strong", {}, other.item), ` ${text}`));
}

export function moveTag(step, choose) {
  const tags = app.state.current ? app.state.current.tags : [];
  const k = tags.findIndex((tag) => tag.current);
  const next = tags[k + step];
  if (next) choose(next);
}

$("add").addEventListener("input", () => suggestTags($("add")));
$("add").addEventListener("focus", () => suggestTags($("add")));
$("note-about").addEventListener("change", fillNote);
