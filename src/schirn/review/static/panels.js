// The threshold, the dialog to rename a tag, and the list of keys.

import { $, app, get, make, number, percent, say, suggestTags, tagCounts, turn } from "./dom.js";

export async function showThreshold(value) {
  const wanted = value === undefined ? app.state.threshold : value;
  $("threshold").value = wanted;
  $("threshold-value").textContent = Number(wanted).toFixed(2);
  const latest = turn("threshold");
  const at = await get("/api/threshold", { value: wanted });
  // Another value may have been chosen in the meantime.
  if (!at || !latest() || Number($("threshold").value) !== Number(wanted)) return;
  const same = Number(wanted) === app.state.threshold;
  const tags = at.removed === 1 ? "1 tag" : `${number(at.removed)} tags`;
  const people = at.by_people ? `, ${number(at.by_people)} of them by people` : "";
  const words = [same ? `${tags} removed${people}.` : `${tags} would be removed (now ${number(at.removed_now)})${people}.`];
  if (at.precision === null) words.push("The model would remove none.");
  else {
    const band = at.low === null ? "" : ` (${percent(at.low)} to ${percent(at.high)})`;
    words.push(`About ${percent(at.precision)} of the removals by the model should be right${band}.`);
  }
  if (at.recall !== null) words.push(`About ${percent(at.recall)} of all wrong tags should be found.`);
  say(words.join(" "), "threshold-words");
  const from = at.source === "planted tags" ? "wrong tags that were planted" : at.source;
  const source = `Estimated from ${from} when the table was cleaned.`;
  $("threshold-source").textContent = at.fixed ? "The certificate is about one threshold, so it cannot change after an audit." : source;
  $("precision-scale").setAttribute("aria-label", at.precision === null ? "no removals" : `expected precision ${percent(at.precision)}`);
  $("precision-needle").hidden = at.precision === null;
  $("precision-band").hidden = at.low === null;
  if (at.precision !== null) $("precision-needle").style.left = `${100 * at.precision}%`;
  if (at.low !== null) {
    $("precision-band").style.left = `${100 * at.low}%`;
    $("precision-band").style.width = `${100 * (at.high - at.low)}%`;
  }
  $("threshold-apply").disabled = at.fixed || same;
  $("threshold-reset").disabled = same;
  $("threshold").disabled = at.fixed;
}

let waiting = 0;
$("threshold").addEventListener("input", () => {
  const value = Number($("threshold").value);
  $("threshold-value").textContent = value.toFixed(2);
  clearTimeout(waiting);
  waiting = setTimeout(() => showThreshold(value), 120);
});
$("threshold-reset").addEventListener("click", () => showThreshold());

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
  ["Everywhere", [["1 – 5", "change the view"], ["/", "search"], ["U", "undo your last action"], ["?", "this list"], ["Esc", "close, or back to the next question"]]],
  ["One by one", [["K", "keep, or add a suggested tag"], ["D", "drop, or reject"], ["S", "skip, or unsure"], ["← →", "previous, next tag of the item"], ["A", "add a tag"], ["R", "rename the tag everywhere"], ["N", "note"], ["W", "why"]]],
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
