const box = document.getElementById("prompt"), say = document.getElementById("say");
const all = [...box.querySelectorAll("span[title]")];
let at = -1;
function go(to) {
  if (!all.length) return;
  if (at >= 0) all[at].classList.remove("at");
  at = Math.max(0, Math.min(all.length - 1, to));
  all[at].classList.add("at");
  all[at].scrollIntoView({ block: "nearest" });
  const why = all[at].closest(".p");
  say.textContent = JSON.stringify(all[at].textContent) + ": " + all[at].title +
    (why ? ", protected: " + why.firstChild.textContent : "");
}
function next(step) {
  let to = at;
  while (all[to + step] && all[to + step].parentNode === all[at].parentNode) to += step;
  return to + step;
}
box.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const to = { ArrowRight: () => at + 1, ArrowLeft: () => at - 1, Home: () => 0, End: () => all.length - 1,
    ArrowDown: () => (at < 0 ? 0 : next(1)), ArrowUp: () => (at < 0 ? 0 : next(-1)) }[event.key];
  if (!to) return;
  event.preventDefault();
  go(to());
});
box.addEventListener("click", (event) => {
  const token = event.target.closest("span[title]");
  if (token) go(all.indexOf(token));
});
