// Functions and constants that the sections of the page share.
const DATA = JSON.parse(document.getElementById("data").textContent);
const MAX_NAMED = 5;  // maximum number of tokens that a sentence lists
const $ = id => document.getElementById(id);

/** Creates an element. Strings become text nodes, so content is never parsed as HTML. */
function element(name, attributes, ...content) {
  const created = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "fraction") created.style.setProperty("--fraction", value);
    else created.setAttribute(key, value);
  }
  created.append(...content);
  return created;
}

const percent = fraction => fraction && fraction < 0.0005 ? "< 0.1\u00a0%"
  : `${(100 * fraction).toFixed(fraction < 0.0995 ? 1 : 0)}\u00a0%`;
const range = (start, end) => Array.from({length: end - start}, (_, at) => start + at);
const option = (value, text) => element("option", {value}, text);
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name);
const sum = values => values.reduce((total, each) => total + each, 0);

/** Selects one button of a group. Only this button is reachable with Tab; see `addArrowKeys`. */
function select(group, chosen) {
  for (const each of group.querySelectorAll("button")) {
    each.setAttribute("aria-pressed", each === chosen);
    each.tabIndex = each === chosen ? 0 : -1;
  }
}

/** Moves the focus within a group of buttons, in rows of `columns`, with the arrow keys. */
function addArrowKeys(group, columns) {
  group.addEventListener("keydown", event => {
    const buttons = [...group.querySelectorAll("button")];
    const at = buttons.indexOf(document.activeElement);
    const to = {ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - columns,
      ArrowDown: at + columns, Home: 0, End: buttons.length - 1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (buttons[to]) buttons[to].focus();
  });
}

/** Shows a tooltip next to the pointer, inside the window. */
function showTip(event, text) {
  const tip = $("tip");
  tip.textContent = text;
  tip.hidden = false;
  const {width, height} = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 4))}px`;
  const above = event.clientY - height - 14;
  tip.style.top = `${above > 4 ? above : event.clientY + 20}px`;
}

const hideTip = () => { $("tip").hidden = true; };
