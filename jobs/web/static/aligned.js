// The page of a document: pointing at a word, or reaching it by keyboard, shows the words of the other side that belong to
// it. The page is whole without this script.
// (A module: its names are not those of the other scripts.)

const SHOWN = "belongs";
document.querySelector("[data-hint]").hidden = false;

function others(word) {
  const side = word.closest("[data-side]");
  const words = side.closest(".sentence").querySelectorAll(`[data-side]:not([data-side=${side.dataset.side}]) .word`);
  return word.dataset.links.split(" ").filter(Boolean).map((number) => words[Number(number)]).filter(Boolean);
}

function show(word) {
  for (const shown of document.querySelectorAll(`.${SHOWN}`)) shown.classList.remove(SHOWN);
  for (const one of word ? [word, ...others(word)] : []) one.classList.add(SHOWN);
}

// The one stop of the Tab key in a sentence's side is the word that was reached last.
function reach(word) {
  for (const one of word.closest("[data-side]").querySelectorAll(".word")) one.tabIndex = one === word ? 0 : -1;
  word.focus();
}

const wordOf = (event) => event.target.closest?.(".word");
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

document.addEventListener("pointerover", (event) => show(wordOf(event) ?? document.activeElement.closest(".word")));
document.addEventListener("focusin", (event) => {
  const word = wordOf(event);
  show(word);
  if (!word) return;
  const belong = others(word).map((one) => one.textContent).join(" ");
  document.querySelector("[data-belong]").textContent = `${word.textContent}: ${belong || "no word"}`;
});
document.addEventListener("focusout", () => show(null));
document.addEventListener("keydown", (event) => {
  const word = wordOf(event);
  if (!word || event.altKey || event.ctrlKey || event.metaKey) return;
  const words = [...word.closest("[data-side]").querySelectorAll(".word")];
  const rightToLeft = getComputedStyle(word).direction === "rtl" && /Left|Right/.test(event.key);
  const step = STEPS[event.key] * (rightToLeft ? -1 : 1);
  const next = { Home: words[0], End: words.at(-1) }[event.key] ?? words[words.indexOf(word) + step];
  if (event.key === "Escape") word.blur();
  else if (next) reach(next);
  else if (!(event.key in STEPS)) return;
  event.preventDefault();
});
