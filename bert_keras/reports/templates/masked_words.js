// The section on masked words.
/** Bars of the most probable tokens of a position, and of its original token. */
function bars({top, original}) {
  const rows = top.map(([token, probability]) =>
    [token, probability, original && original[0] === token, percent(probability)]);
  if (original && !rows.some(each => each[2])) {
    const [token, probability, rank] = original;
    rows.push([token, probability, true,
      `${percent(probability)}, rank ${rank.toLocaleString("en")}`]);
  }
  return element("ol", {class: "bars"}, ...rows.map(([token, fraction, isOriginal, text]) =>
    element("li", isOriginal ? {class: "original"} : {}, element("bdi", {class: "name"}, token),
      element("div", {class: "track", "aria-hidden": "true"}, element("div", {fraction})),
      element("span", {class: "number"}, text))));
}

function masked({missing, predictions, is_next}, tokens) {
  const note = text => element("p", {class: "note"}, text);
  $("masked").hidden = false;
  if (missing) {
    $("masked").append(note(`This model is a ${missing}, which has no masked-LM head and predicts `
      + "no masked words. Use a BertPretrainer or BertMaskedLM."));
    return;
  }
  if (is_next !== undefined) $("masked").append(element("p", {}, "The second text follows the "
    + "first with a probability of ", element("b", {}, percent(is_next)), "."));
  if (!predictions[0].original) {
    const around = at => [tokens.slice(Math.max(0, at - 4), at).join(" "), " ",
      element("mark", {class: "both"}, tokens[at]), " ", tokens.slice(at + 1, at + 5).join(" ")];
    $("masked").append(element("div", {class: "lists"}, ...predictions.map(each =>
      element("div", {}, element("h3", {}, ...around(each.position)), bars(each)))));
    return;
  }
  const buttons = element("div", {class: "tokens", role: "group",
    "aria-label": "Tokens, each masked separately; the arrow keys move between them"});
  const list = element("div", {"aria-live": "polite"});
  const show = each => {
    select(buttons, buttons.children[predictions.indexOf(each)]);
    const heading = `Predictions for ${each.original[0]} (${each.position})`;
    list.replaceChildren(element("h3", {}, heading), bars(each));
  };
  buttons.append(...predictions.map(each => {
    const [token, probability] = each.original;
    const button = element("button", {type: "button", fraction: 1 - probability}, token,
      element("small", {}, percent(probability)));
    for (const event of ["focus", "pointerenter", "click"])
      button.addEventListener(event, () => show(each));
    return button;
  }));
  addArrowKeys(buttons, 1);
  $("masked").append(note("Each token is masked separately and shown with the probability that the "
    + "model predicts for it. A darker shade is a lower probability."), buttons, list);
  show(predictions.reduce((least, each) => each.original[1] < least.original[1] ? each : least));
}
