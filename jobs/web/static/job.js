// The page of a job: the threshold of perplexity that can be dragged, and the parts that can be folded.
"use strict";

const SAME = 1e-5; // relative: as in jobs/web/job_page/perplexity.py, which says the same without this script

// As many significant digits, without an exponent.
function written(value, digits) {
  const text = Number(value.toPrecision(digits)).toLocaleString("en-US", { useGrouping: false, maximumFractionDigits: 20 });
  return text;
}

function grouped(number) {
  return number.toLocaleString("en-US");
}

function counted(number) {
  return `${grouped(number)} ${number === 1 ? "document" : "documents"}`;
}

function sum(numbers) {
  return numbers.reduce((total, one) => total + one, 0);
}

function passing(buckets, value) {
  const stop = (at) => buckets.stops[at] ?? Infinity;
  const total = sum(buckets.documents);
  const atLeast = sum(buckets.documents.filter((_, at) => stop(at) <= value * (1 + SAME)));
  const below = sum(buckets.documents.filter((_, at) => buckets.starts[at] < value * (1 - SAME)));
  const atMost = Math.max(atLeast, below);
  const text = written(value, 6);
  if (atLeast === atMost) {
    const share = total ? Math.floor((1000 * atLeast) / total) / 10 : 0;
    return `${grouped(atLeast)} of ${counted(total)} (${share.toFixed(1)} %) are below ${text}.`;
  }
  return `Between ${grouped(atLeast)} and ${grouped(atMost)} of ${counted(total)} are below ${text}; at the end of a bar the count is exact.`;
}

// The command as the server wrote it, `perplexity < 50` or `log_prob > -3.91 * num_new_tokens`, with another number.
function exportCommand(command, value) {
  const text = written(value, 6);
  return command.replace(/< \S+'/, `< ${text}'`).replace(/> \S+/, `> ${written(-Math.log(Number(text)), 6)}`);
}

function dragThreshold(form) {
  const buckets = JSON.parse(form.querySelector("[data-buckets]").textContent);
  const plot = document.querySelector(`[data-chart="${form.dataset.threshold}-data"]`);
  const slider = form.querySelector("[type=range]");
  const field = form.querySelector("[type=number]");
  const ends = [buckets.starts[0], ...buckets.stops.filter((stop) => stop !== null)];
  slider.max = ends.length - 1;
  form.querySelector(".slider").hidden = false;
  form.querySelector("[data-apply]").hidden = true;

  function show(value) {
    const below = ends.filter((end, at) => at > 0 && end <= value * (1 + SAME)).length;
    form.querySelector("output").textContent = passing(buckets, value);
    const command = form.querySelector("[data-command]");
    command.textContent = exportCommand(command.textContent, value);
    slider.setAttribute("aria-valuetext", `perplexity ${written(value, 6)}`);
    plot.dispatchEvent(new CustomEvent("mark", { detail: below }));
    return below;
  }
  slider.addEventListener("input", () => {
    const value = ends[Number(slider.value)];
    field.value = written(value, 6);
    show(value);
  });
  field.addEventListener("input", () => {
    const value = Number(field.value);
    if (value > 0 && field.checkValidity()) slider.value = show(value);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const address = new URL(location.href);
    address.searchParams.set("below", field.value);
    history.replaceState(null, "", address);
  });
  slider.addEventListener("change", () => form.requestSubmit());
  field.addEventListener("change", () => form.reportValidity() && form.requestSubmit());
}

// A link to a part opens it; the list of parts says which one is read.
function openTarget() {
  const part = location.hash && document.getElementById(location.hash.slice(1));
  if (part instanceof HTMLDetailsElement) part.open = true;
}

function followReading() {
  const links = new Map([...document.querySelectorAll(".sections a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-15% 0px -75% 0px" });
  links.forEach((_, id) => document.getElementById(id) && seen.observe(document.getElementById(id)));
}

addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("[data-threshold]").forEach(dragThreshold);
  openTarget();
  followReading();
});
addEventListener("hashchange", openTarget);
document.addEventListener("refreshed", () => document.querySelectorAll("[data-threshold]:has(.slider[hidden])").forEach(dragThreshold));
