// A page that shows jobs is read anew when they change, as a whole, so that all its figures are of one moment; and
// buttons that copy a command. The page is whole without this script.
"use strict";
document.documentElement.classList.add("scripted");

// What a visitor or another script has changed, and a new reading does not undo.
const OURS = ["open", "hidden", "aria-current"];

function sync(old, now) {
  for (const { name } of [...old.attributes]) {
    if (!now.hasAttribute(name) && !OURS.includes(name)) old.removeAttribute(name);
  }
  for (const { name, value } of now.attributes) {
    if (!OURS.includes(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
}

// Make an element like another, and keep what is the same: focus, folds, ticks and the place on the page.
function morph(old, now) {
  if (old.isEqualNode(now)) return;
  if (old.matches(".plot")) return old.setAttribute("aria-label", now.getAttribute("aria-label")); // charts.js draws it
  if (old.matches("[data-threshold]") && old.contains(document.activeElement)) return;
  if (old.matches("[data-threshold]")) return old.replaceWith(now); // job.js makes it move
  if (old.matches("[data-said]")) return say(old, now);
  sync(old, now);
  const named = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
  const kept = new Set();
  let at = old.firstChild; // what stands before it is done
  for (const child of [...now.childNodes]) {
    const match = child.id ? named.get(child.id) : counterpart(child, at, kept);
    kept.add(match ?? child);
    if (!match) {
      old.insertBefore(child, at);
      continue;
    }
    if (match === at || (at && match.compareDocumentPosition(at) & Node.DOCUMENT_POSITION_PRECEDING)) at = match.nextSibling;
    else old.insertBefore(match, at);
    if (match instanceof Element) morph(match, child);
    else if (match.data !== child.data) match.data = child.data;
  }
  for (const child of [...old.childNodes]) if (!kept.has(child)) child.remove();
}

// Of the nodes from `at` on the one that becomes `child`: the next of its kind, so that a part that comes or goes
// replaces nothing behind it. A text only takes the place of a text, since texts stand everywhere.
function counterpart(child, at, kept) {
  const isKind = (one) => one && one.nodeName === child.nodeName && !one.id && !kept.has(one);
  if (!(child instanceof Element)) return isKind(at) ? at : undefined;
  for (let one = at; one; one = one.nextSibling) {
    if (isKind(one) && one.className === child.className) return one;
  }
  return isKind(at) ? at : undefined;
}

// A status that screen readers say when it changes.
function say(old, now) {
  if (old.dataset.said !== now.dataset.said) old.textContent = now.dataset.said;
  old.dataset.said = now.dataset.said;
}

let isReading = false;
async function show(stamp) {
  const main = document.getElementById("main");
  if (stamp === main.dataset.stamp || isReading || document.hidden) return;
  isReading = true;
  const address = location.href;
  try {
    const answer = await fetch(address, { headers: { accept: "text/html" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (address !== location.href) return; // a filter has changed the list meanwhile; the next word reads that
    morph(main, page.getElementById("main"));
    document.dispatchEvent(new CustomEvent("refreshed"));
  } catch {
    // The dashboard does not answer: the page keeps what it shows, and the next word of it tries again.
  } finally {
    isReading = false;
  }
}

const live = document.querySelector("main[data-live]");
if (live) {
  const events = new EventSource(live.dataset.live ? `/events?${live.dataset.live}` : "/events");
  events.addEventListener("stamp", (event) => show(event.data));
  addEventListener("pagehide", () => events.close());
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  navigator.clipboard.writeText(button.previousElementSibling.textContent).then(() => {
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
});
document.addEventListener("change", (event) => {
  if (!event.target.matches("[data-tick-all]")) return;
  for (const box of event.target.form.querySelectorAll("td.tick input[name=job]")) box.checked = event.target.checked;
});
function showButtons() {
  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
  for (const box of document.querySelectorAll("[data-tick-all]")) box.hidden = false;
}
showButtons();
document.addEventListener("htmx:afterSettle", showButtons); // a list that was replaced has new ones
document.addEventListener("refreshed", showButtons);
