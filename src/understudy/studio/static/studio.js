// The sliders of the plan: each moves the number beside it, and the number moves the slider. Everything else is htmx.
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
