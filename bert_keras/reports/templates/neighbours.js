// The section on a word in several sentences.
function neighbours({word, num_tokens, occurrences, cosines, orders}) {
  let chosen = 0;
  function show() {
    const depth = +$("depth").value, near = cosines[depth], others = [];
    near.forEach((row, a) => row.forEach((cosine, b) => { if (a !== b) others.push(cosine); }));
    const [least, most] = [others.reduce((a, b) => Math.min(a, b)),
      others.reduce((a, b) => Math.max(a, b))];
    const fraction = cosine => most > least ? (cosine - least) / (most - least) : 0;
    const order = {similarity: orders[depth], file: range(0, occurrences.length),
      nearest: range(0, occurrences.length).sort((a, b) => near[chosen][b] - near[chosen][a])
    }[$("order").value];
    $("measure").textContent = `Cosines between the vectors of the word`
      + `${num_tokens > 1 ? `, which are means over its ${num_tokens} tokens` : ""}. No shade is `
      + `${least.toFixed(2)}, full shade is ${most.toFixed(2)}. Choose a sentence to compare the `
      + "others with it.";
    const header = element("tr", {}, element("th", {}, "line"), element("th", {}, "sentence"),
      element("th", {}, "cosine to the chosen sentence"),
      ...order.map(each => occurrences[each]).map(({line, before, word, after}) => element("th",
        {class: "heat", title: `line ${line}: ${before}${word}${after}`}, line)));
    const rows = order.map(each => {
      const {line, before, word, after} = occurrences[each];
      const radio = element("input", {type: "radio", name: "chosen", value: each});
      radio.checked = each === chosen;
      radio.addEventListener("change", () => { chosen = each; show(); });
      const cosine = near[chosen][each];
      return element("tr", each === chosen ? {class: "chosen"} : {},
        element("th", {}, element("label", {}, radio, ` ${line}`)),
        element("td", {class: "text", dir: "auto"}, before, element("mark", {}, word), after),
        element("td", {class: "cosine"}, ...each === chosen ? ["chosen"] : [cosine.toFixed(2),
          element("div", {class: "track", "aria-hidden": "true"},
            element("div", {fraction: Math.max(0, fraction(cosine))}))]),
        ...order.map(other => {
          const text = near[each][other].toFixed(2);
          return each === other ? element("td", {class: "heat", fraction: 0}, "·")
            : element("td", {class: "heat", fraction: fraction(near[each][other]),
              title: `lines ${line} and ${occurrences[other].line}: ${text}`},
            occurrences.length > MAX_COLUMNS ? "" : text.replace("0.", "."));
        }));
    });
    const isFocused = $("near").contains(document.activeElement);
    $("near").replaceChildren(element("thead", {}, header), element("tbody", {}, ...rows));
    if (isFocused) $("near").querySelector("input:checked").focus();
  }
  const lines = new Set(occurrences.map(({line}) => line)).size;
  $("neighbours-title").textContent = `“${word}” in ${lines} sentence${lines > 1 ? "s" : ""}`;
  $("depth").append(option(0, "of the embeddings"),
    ...range(1, DATA.num_layers + 1).map(number => option(number, `after layer ${number}`)));
  $("depth").value = DATA.num_layers;
  $("depth").addEventListener("change", show);
  $("order").addEventListener("change", show);
  $("neighbours").hidden = false;
  show();
}
