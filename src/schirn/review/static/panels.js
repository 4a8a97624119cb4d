// The dialog to rename a tag, and the list of keys.

import { $, make, number, say, suggestTags, tagCounts } from "./dom.js";

let renaming = null;

// The dialog opens at once, so that what is typed next goes into its field.
export async function openRename(label, rename) {
  const opened = (renaming = { label, rename, counts: null });
  $("rename-title").textContent = `Rename ${label}`;
  $("new-name").value = label;
  say("", "rename-words");
  $("rename").showModal();
  $("new-name").select();
  opened.counts = await tagCounts();
  if (opened === renaming) describeRename();
}

function describeRename() {
  const { label, counts } = renaming;
  if (!counts) return;
  const name = $("new-name").value.trim();
  const listed = (wanted) => counts.filter((tag) => tag.label === wanted).map((tag) => tag.listed)[0];
  const rows = (count) => (count === 1 ? "1 row" : `${number(count)} rows`);
  const mine = listed(label) || 0;
  const there = listed(name);
  const here = `${rows(mine)} ${mine === 1 ? "has" : "have"} ${label}.`;
  const merge = name !== label && there !== undefined ? ` ${name} exists in ${rows(there)}, so both become one tag.` : "";
  say(here + merge, "rename-words");
}

$("new-name").addEventListener("input", () => {
  suggestTags($("new-name"));
  describeRename();
});
$("rename-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const to = $("new-name").value.trim();
  $("rename").close();
  if (to && to !== renaming.label) renaming.rename(renaming.label, to);
});
$("rename-cancel").addEventListener("click", () => $("rename").close());

const KEYS = [
  ["Everywhere", [["1 – 4", "change the view"], ["/", "search"], ["U", "undo your last action"], ["?", "this list"], ["Esc", "close, or back to the next question"]]],
  ["One by one", [["K", "keep, or add a suggested tag"], ["D", "drop, or reject"], ["S", "unsure"], ["X", "swap the tag for the one named"], ["← →", "previous, next tag of the item"], ["A", "add a tag"], ["R", "rename the tag everywhere"], ["N", "note"], ["W", "why"]]],
  ["Lists", [["↓ ↑", "next, previous item"], ["K, D", "keep, drop the tag of the item"], ["⇧K, ⇧D", "keep, drop all that are shown"], ["Enter", "open the item"], ["R", "rename the tag"]]],
];

$("help-keys").replaceChildren(
  ...KEYS.map(([title, keys]) =>
    make("section", {}, make("h3", {}, title), make("dl", { class: "keys" }, ...keys.flatMap(([key, text]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, text)]))),
  ),
);
export function openHelp() {
  $("help").showModal();
  $("help-title").focus();
}
$("help-button").addEventListener("click", openHelp);
$("help-close").addEventListener("click", () => $("help").close());
