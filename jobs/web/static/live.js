// Counters that change while somebody looks, and buttons that copy a command. The page is whole without this script.
"use strict";
document.documentElement.classList.add("scripted");

function update(counters) {
  for (const element of document.querySelectorAll("[data-live]")) {
    const counter = counters[element.dataset.live];
    if (!counter) continue;
    if (element.dataset.what in counter) element.textContent = counter[element.dataset.what];
    if ("share" in element.dataset) {
      const bar = element.querySelector(".bar-ok");
      const bad = element.querySelector(".bar-bad");
      bar.setAttribute("width", Math.max(0, 100 * counter.share - bad.getAttribute("width")));
    }
  }
}

if (document.querySelector("[data-live]")) {
  const events = new EventSource("/events");
  events.addEventListener("counters", (event) => update(JSON.parse(event.data)));
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
for (const button of document.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
