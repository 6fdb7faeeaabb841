// What htmx does not do: the sliders of the plan, a word while a form that takes a moment is being answered, and telling
// a screen reader how far work has come, when that changes and not whenever the page has asked.
"use strict";
for (const slider of document.querySelectorAll("input[data-steps]")) {
  const number = document.getElementById(slider.dataset.for);
  const steps = slider.dataset.steps.trim().split(" ");
  const say = () => slider.setAttribute("aria-valuetext", steps[slider.value]);
  slider.addEventListener("input", () => { number.value = steps[slider.value]; say(); });
  number.addEventListener("input", () => {
    const typed = Math.log(Number(number.value));
    if (!Number.isFinite(typed)) return;
    const far = steps.map(step => Math.abs(Math.log(Number(step)) - typed));
    slider.value = far.indexOf(Math.min(...far)); say();
  });
  say();
}

document.addEventListener("submit", event => {
  const form = event.target, words = form.dataset.working;
  if (!words || form.querySelector(".working")) return;
  const said = document.createElement("p");
  said.className = "working";
  said.setAttribute("role", "status");
  form.append(said);
  said.textContent = words;
});
addEventListener("pageshow", event => {
  if (event.persisted) document.querySelectorAll("form[data-working] > .working").forEach(one => one.remove());
});

const tell = () => {
  const part = document.querySelector("[data-said]"), place = document.getElementById("said");
  if (part && place.textContent !== part.dataset.said) place.textContent = part.dataset.said;
};
document.addEventListener("htmx:afterSwap", tell);
tell();
