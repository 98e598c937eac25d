// The form of a new job: how far the upload is, and what is wrong with it, while the chosen files stay chosen. Names that
// begin with a dot, as of .git, are not sent: the server would leave them out. The form works without this script.
"use strict";

const HIDDEN = /(^|\/)\./;

function written(numBytes) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let at = 0;
  for (; numBytes >= 1024 && at < units.length - 1; at++) numBytes /= 1024;
  return `${numBytes.toFixed(at && numBytes < 10 ? 1 : 0)} ${units[at]}`;
}

function fieldsOf(form, button) {
  const fields = new FormData();
  for (const [name, value] of new FormData(form)) {
    if (!(value instanceof File)) fields.append(name, value);
  }
  if (button?.name) fields.append(button.name, button.value);
  for (const input of form.querySelectorAll("input[type=file]")) {
    for (const file of input.files) {
      const path = file.webkitRelativePath || file.name;
      if (!HIDDEN.test(path)) fields.append(input.name, file, path);
    }
  }
  return fields;
}

function say(form, answer) {
  document.querySelectorAll("#problem, #dry-run").forEach((old) => old.remove());
  const page = new DOMParser().parseFromString(answer, "text/html");
  const found = page.querySelectorAll("#problem, #dry-run");
  const shown = found.length ? [...found] : [Object.assign(document.createElement("p"), { id: "problem", className: "problem" })];
  if (!found.length) {
    shown[0].setAttribute("role", "alert");
    shown[0].textContent = page.querySelector("main p")?.textContent || page.body.textContent.trim();
  }
  for (const part of shown) {
    part.querySelectorAll("[data-again]").forEach((words) => words.remove()); // the files are still chosen
    form.before(part);
  }
  shown[0].scrollIntoView({ block: "center" });
}

function send(form, button) {
  const sending = form.querySelector("[data-sending]");
  const [bar, words] = [sending.querySelector("progress"), sending.querySelector("p")];
  const request = new XMLHttpRequest();
  const buttons = form.querySelectorAll(".takes button");
  const end = () => {
    sending.hidden = true;
    buttons.forEach((one) => (one.disabled = false));
  };
  sending.hidden = false;
  buttons.forEach((one) => (one.disabled = true));
  request.upload.addEventListener("progress", ({ loaded, total }) => {
    bar.value = total ? loaded / total : 0;
    words.textContent = loaded < total ? `${written(loaded)} of ${written(total)} sent` : "Sent; the server reads it";
  });
  request.addEventListener("load", () => {
    if (request.status < 300 && new URL(request.responseURL).pathname !== location.pathname) {
      location.assign(request.responseURL);
      return;
    }
    end();
    say(form, request.responseText);
  });
  request.addEventListener("error", () => {
    end();
    say(form, "The upload did not reach the server, or it has refused it before its end; send it again.");
  });
  sending.querySelector("button").onclick = () => request.abort();
  request.addEventListener("abort", end);
  request.open("POST", form.action);
  request.send(fieldsOf(form, button));
}

addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector("form.new-job");
  form?.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form, event.submitter);
  });
});
