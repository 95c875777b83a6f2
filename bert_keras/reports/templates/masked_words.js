// The section on masked words.
/** Bars of the most probable tokens of a position, and of its own token. */
function bars({top, own}) {
  const rows = top.map(([piece, share]) => [piece, share, own && own[0] === piece, percent(share)]);
  if (own && !rows.some(each => each[2]))
    rows.push([own[0], own[1], true, `${percent(own[1])}, rank ${own[2].toLocaleString("en")}`]);
  return element("ol", {class: "bars"}, ...rows.map(([piece, share, isOwn, told]) =>
    element("li", isOwn ? {class: "own"} : {}, element("bdi", {class: "name"}, piece),
      element("div", {class: "track", "aria-hidden": "true"}, element("div", {share})),
      element("span", {class: "number"}, told))));
}

function masked({missing, places, is_next}, pieces) {
  const note = text => element("p", {class: "note"}, text);
  $("masked").hidden = false;
  if (missing) {
    $("masked").append(note(`This model, a ${missing}, has no masked-LM head and so predicts no `
      + "masked words; a BertPretrainer or BertMaskedLM does."));
    return;
  }
  if (is_next !== undefined) $("masked").append(element("p", {}, "The second text follows the "
    + "first with a probability of ", element("b", {}, percent(is_next)), "."));
  if (!places[0].own) {
    const around = at => [pieces.slice(Math.max(0, at - 4), at).join(" "), " ",
      element("mark", {class: "both"}, pieces[at]), " ", pieces.slice(at + 1, at + 5).join(" ")];
    $("masked").append(element("div", {class: "lists"}, ...places.map(each => element("div", {},
      element("h3", {}, ...around(each.position)), bars(each)))));
    return;
  }
  const tokens = element("div", {class: "tokens", role: "group",
    "aria-label": "Pieces, masked in turn; arrow keys go through them"});
  const list = element("div", {"aria-live": "polite"});
  const show = each => {
    press(tokens, tokens.children[places.indexOf(each)]);
    list.replaceChildren(element("h3", {}, `In the place of ${each.own[0]} (${each.position})`),
      bars(each));
  };
  tokens.append(...places.map(each => {
    const button = element("button", {type: "button", share: 1 - each.own[1]}, each.own[0],
      element("small", {}, percent(each.own[1])));
    for (const event of ["focus", "pointerenter", "click"])
      button.addEventListener(event, () => show(each));
    return button;
  }));
  walk(tokens, 1);
  $("masked").append(note("Each piece masked by itself, and the probability that the model then "
    + "gives it: the stronger the shade, the less it was expected."), tokens, list);
  show(places.reduce((least, each) => each.own[1] < least.own[1] ? each : least));
}
