// What the pages share: elements, words and messages.

export const $ = (id) => document.getElementById(id);
export const number = (count) => count.toLocaleString("en");

// The token is in a cookie now; without it in the address bar nobody copies it by mistake.
if (location.search) history.replaceState(null, "", location.pathname);

// An element with properties and children; texts are always texts, never HTML.
export function make(name, properties, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

export function say(text, id = "live") {
  if ($(id).textContent !== text) $(id).textContent = text;
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
