// What all modules share: the state of the page, elements, and requests.

export const app = {
  state: null,
  // The action under way: a promise, or null.
  busy: null,
  view: "one",
  person: "",
  second: false,
  // What to ask next, if the person does not choose a tag.
  order: "first",
  // The tag that the user chose to see, instead of the next question.
  chosen: null,
};

export const $ = (id) => document.getElementById(id);

// An element with properties and children; texts are always texts, never HTML.
export function make(name, properties, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties || {})) {
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function percent(share) {
  return `${Math.round(100 * share)}%`;
}

export function number(count) {
  return count.toLocaleString("en");
}

export function say(text, id) {
  const element = $(id || "live");
  if (element.textContent !== text) element.textContent = text;
}

export function banner(text, bad) {
  $("banner").textContent = text;
  $("banner").hidden = !text;
  $("banner").classList.toggle("bad", !!bad);
}

export async function refused(response) {
  const json = (response.headers.get("Content-Type") || "").startsWith("application/json");
  banner(json ? (await response.json()).error : await response.text(), true);
}

// Answers may arrive out of order. `turn(name)` starts a request and returns a function that tells
// whether its answer is still wanted: no later request of the same name was started.
const turns = {};
export function turn(name) {
  const mine = (turns[name] = (turns[name] || 0) + 1);
  return () => turns[name] === mine;
}

// The answer to a list, or null after an error, which the banner shows.
export async function get(path, given) {
  try {
    const response = await fetch(`${path}?${new URLSearchParams(given || {})}`);
    if (response.ok) return await response.json();
    await refused(response);
  } catch (error) {
    banner("The server does not respond; it may have been stopped. All confirmed decisions are saved.", true);
  }
  return null;
}

export function post(body) {
  return fetch("/api/decide", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, seen: app.state.seq, person: app.person, second: app.second, order: app.order }),
  });
}

// A cookie, since all ports share it and the port changes with every start.
const COOKIE = "schirn_reviewer=";

export function storedName() {
  const found = document.cookie.split("; ").find((each) => each.startsWith(COOKIE));
  try {
    return found === undefined ? null : decodeURIComponent(found.slice(COOKIE.length));
  } catch (error) {
    return null;
  }
}

export function storeName(name) {
  app.person = name;
  document.cookie = `${COOKIE}${encodeURIComponent(name)}; path=/; max-age=31536000; SameSite=Strict`;
}

export function picture(row, large) {
  if (!row.image) return null;
  if (!row.has_image) return make("p", { class: "no-image" }, `Image ${row.image} cannot be shown`);
  const image = make("img", { src: `/image/${row.row}`, alt: `Image ${row.image} of item ${row.item}` });
  if (!large) image.loading = "lazy";
  image.addEventListener("error", () => image.replaceWith(make("p", { class: "no-image" }, `Image ${row.image} cannot be shown`)));
  return large ? make("a", { href: `/image/${row.row}`, target: "_blank", rel: "noopener" }, image) : image;
}

// The tags of an item; `choose` makes them buttons.
export function chip(tag, choose) {
  const classes = ["tag"];
  if (tag.current) classes.push("now");
  else if (tag.decision === "keep" || tag.decision === "drop") classes.push(tag.decision);
  else if (!tag.kept && !tag.suggested) classes.push("out");
  if (tag.suggested) classes.push("plus");
  const words = tag.suggested ? { keep: "added", drop: "rejected" } : { keep: "kept", drop: "dropped" };
  const likely = tag.confidence === null ? "" : percent(tag.confidence);
  const decided = words[tag.decision] && `${words[tag.decision]} by ${app.people > 1 ? "a person" : "you"}`;
  const small = decided || (tag.suggested ? `${likely}, suggested` : likely);
  let spoken = "";
  if (tag.current) spoken = " (the tag in question)";
  else if (!decided && !tag.kept && !tag.suggested) spoken = " (removed)";
  const parts = [
    make("span", { class: "name" }, tag.label),
    " ",
    make("small", {}, small),
    make("span", { class: "hidden" }, spoken),
  ];
  const item = make("li", { class: classes.join(" ") });
  if (choose && !tag.current) item.append(make("button", { type: "button", class: "plain", onclick: () => choose(tag) }, ...parts));
  else item.append(...parts);
  return item;
}

let known = null;

export async function tagCounts() {
  known = await get("/api/tags");
  return known ? known.tags : [];
}

// At most twenty tags that fit what is in the field, those that start with it first.
export async function suggestTags(field) {
  if (!known) await tagCounts();
  // More may have been typed in the meantime.
  const wanted = field.value.toLowerCase();
  const names = (known ? known.tags : []).map((tag) => tag.label);
  const fits = names.filter((name) => name.toLowerCase().includes(wanted));
  fits.sort((a, b) => b.toLowerCase().startsWith(wanted) - a.toLowerCase().startsWith(wanted));
  $("known-tags").replaceChildren(...fits.slice(0, 20).map((value) => make("option", { value })));
}

export function forgetTags() {
  known = null;
}
