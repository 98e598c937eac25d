// Counters that change while somebody looks, and buttons that copy a command. The page is whole without this script.
"use strict";
document.documentElement.classList.add("scripted");

function update(counters) {
  for (const element of document.querySelectorAll("[data-live]")) {
    const counter = counters[element.dataset.live];
    if (!counter) continue;
    if (element.dataset.what in counter) element.textContent = counter[element.dataset.what];
    if (element.dataset.what === "state") element.className = `state state-${counter.state}`;
    if ("share" in element.dataset) {
      const bar = element.querySelector(".bar-ok");
      const bad = element.querySelector(".bar-bad");
      const ok = Math.max(0, 100 * counter.share - bad.getAttribute("width"));
      bar.setAttribute("width", ok);
      bad.setAttribute("x", ok);
    }
  }
}

// A page of one job says so when the job is in another state than when the page was made.
function noteState(counters) {
  const head = document.querySelector("[data-live-job]");
  const counter = head && counters[`job-${head.dataset.liveJob}`];
  if (counter) head.querySelector("[data-ended-note]").hidden = counter.state === head.dataset.state;
}

if (document.querySelector("[data-live]")) {
  const own = document.querySelector("[data-live-job]");
  const events = new EventSource(own ? `/events?job=${own.dataset.liveJob}` : "/events");
  events.addEventListener("counters", (event) => {
    const counters = JSON.parse(event.data);
    update(counters);
    noteState(counters);
  });
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
function showCopyButtons() {
  for (const button of document.querySelectorAll("[data-copy]")) button.hidden = !navigator.clipboard;
}
showCopyButtons();
document.addEventListener("htmx:afterSettle", showCopyButtons); // a list that was replaced has new ones
