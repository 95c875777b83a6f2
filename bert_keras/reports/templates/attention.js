// The attention section: the tokens, one attention map, and a grid of all maps.
function attention({tokens, texts, cls, sep, steps, weights}) {
  const all = new Uint16Array(Uint8Array.from(atob(weights), each => each.charCodeAt(0)).buffer);
  const size = tokens.length, {num_layers: layers, num_heads: heads} = DATA;
  const isSpecial = at => at === 0 || tokens[at] === sep;
  const tokensOf = text => range(0, size).filter(at => texts[at] === text && !isSpecial(at));
  const [first, second] = [tokensOf(0), tokensOf(1)], words = [...first, ...second];
  const AMONG = {
    all: ["all tokens", range(0, size), range(0, size)],
    words: [`all but ${cls} and ${sep}`, words, words],
    ...second.length && {across: ["first text to second", first, second],
      back: ["second text to first", second, first]},
  };
  let layer = layers, head = 0, chosen = Math.min(1, size - 1);

  /** Attention [T x T] of a head, counted from 1; head 0 is the mean of all heads. */
  function matrix(layer, head) {
    const start = number => ((layer - 1) * heads + number - 1) * size * size;
    if (head) return Float64Array.from(all.subarray(start(head), start(head + 1)), w => w / steps);
    const sums = new Float64Array(size * size);
    for (const number of range(1, heads + 1))
      all.subarray(start(number), start(number + 1)).forEach((w, i) => { sums[i] += w; });
    return sums.map(sum => sum / steps / heads);
  }

  const among = () => AMONG[$("among").value];
  const isRow = () => $("side").value === "row";
  const name = number => number ? `head ${number}` : "mean of the heads";

  function greatest(values) {
    const [, rows, columns] = among();
    return Math.max(1e-9, ...rows.map(r => Math.max(...columns.map(c => values[r * size + c]))));
  }

  /** Weights of the chosen token: its attention to other tokens, or their attention to it. */
  function row(values) {
    const [, rows, columns] = among();
    const shown = isRow() ? [rows, columns] : [columns, rows];
    return shown[0].includes(chosen) ? shown[1].map(each => [each,
      isRow() ? values[chosen * size + each] : values[each * size + chosen]]) : [];
  }

  function showTokens(values) {
    const weights = new Map(row(values)), largest = Math.max(1e-9, ...weights.values());
    for (const button of $("tokens").querySelectorAll("button")) {
      const weight = weights.get(+button.value);
      button.style.setProperty("--fraction", (weight || 0) / largest);
      button.lastChild.textContent = weight >= 0.005 ? percent(weight) : "";
      if (+button.value === chosen) select($("tokens"), button);
    }
    const mostFirst = [...weights].sort((a, b) => b[1] - a[1]).slice(0, MAX_NAMED);
    const verb = !weights.size ? "is not among the shown tokens"
      : isRow() ? "attends to" : "is attended to by";
    $("summary").replaceChildren(element("b", {}, tokens[chosen]), ` (${chosen}) ${verb} `,
      ...mostFirst.flatMap(([each, weight], at) => [at ? ", " : "",
        element("bdi", {class: "token"}, tokens[each]), ` ${percent(weight)}`]));
  }

  /** Shows what a head attends to, as the mean over all tokens. */
  function showMeans(values) {
    const to = columns => sum(range(0, size).flatMap(r => columns(r)
      .map(c => c >= 0 && c < size ? values[r * size + c] : 0))) / size;
    const ends = range(0, size).filter(each => tokens[each] === sep);
    const means = [[cls, to(() => [0])], [sep, to(() => ends)], ["itself", to(r => [r])],
      ["the previous token", to(r => [r - 1])], ["the next token", to(r => [r + 1])]];
    $("means").textContent = `Layer ${layer}, ${name(head)}: a token attends on average to `
      + means.map(([target, weight]) => `${target} ${percent(weight)}`).join(", ") + ".";
  }

  function showMap(values) {
    const [, rows, columns] = among(), most = greatest(values);
    const space = Math.min(460, $("attention").clientWidth - 100);  // width without the row labels
    const longest = Math.max(rows.length, columns.length);
    const cell = Math.min(28, Math.max(9, Math.floor(space / longest)));
    const canvas = $("map"), context = canvas.getContext("2d"), dense = devicePixelRatio || 1;
    const font = `${Math.min(13, cell)}px system-ui, sans-serif`;
    const short = at => tokens[at].length > 12 ? `${tokens[at].slice(0, 11)}…` : tokens[at];
    context.font = `bold ${font}`;
    const widths = range(0, size).map(at => context.measureText(short(at)).width);
    const margin = 8 + Math.ceil(Math.max(...widths));
    const [width, height] = [margin + columns.length * cell + 2, margin + rows.length * cell + 2];
    Object.assign(canvas, {width: width * dense, height: height * dense});
    Object.assign(canvas.style, {width: `${width}px`, height: `${height}px`});
    canvas.setAttribute("aria-label", `Map of layer ${layer}, ${name(head)}; the buttons above `
      + "show its values");
    context.scale(dense, dense);
    const label = (at, isChosen, draw) => {
      context.font = isChosen ? `bold ${font}` : font;
      draw(short(at));
    };
    context.fillStyle = colour("--ink");
    context.textBaseline = "middle";
    rows.forEach((r, i) => label(r, isRow() && r === chosen, text => {
      context.textAlign = "right";
      context.fillText(text, margin - 5, margin + (i + .5) * cell);
    }));
    columns.forEach((c, i) => label(c, !isRow() && c === chosen, text => {
      context.save();
      context.translate(margin + (i + .5) * cell, margin - 5);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(text, 0, 0);
      context.restore();
    }));
    context.strokeStyle = colour("--line");
    context.strokeRect(margin - .5, margin - .5, columns.length * cell + 1, rows.length * cell + 1);
    rows.forEach((r, i) => columns.forEach((c, j) => {
      context.fillStyle = `rgba(${colour("--heat")}, ${values[r * size + c] / most})`;
      const side = cell - (cell > 12);
      context.fillRect(margin + j * cell, margin + i * cell, side, side);
    }));
    context.strokeStyle = colour("--ink");
    const [line, index] = isRow() ? [columns, rows.indexOf(chosen)]
      : [rows, columns.indexOf(chosen)];
    const side = line.length * cell, start = margin + index * cell - .5;
    if (index >= 0) context.strokeRect(...isRow() ? [margin - .5, start, side, cell]
      : [start, margin - .5, cell, side]);
    canvas.onpointermove = canvas.onpointerdown = event => {
      const [j, i] = [event.offsetX, event.offsetY].map(each => Math.floor((each - margin) / cell));
      if (!(rows[i] >= 0 && columns[j] >= 0)) return hideTip();
      const [from, to] = [rows[i], columns[j]];
      chooseToken(isRow() ? from : to);
      showTip(event, `${tokens[from]} (${from}) attends to ${tokens[to]} (${to}): `
        + values[from * size + to].toFixed(4));
    };
    canvas.onpointerleave = hideTip;
    $("scale").textContent = `Each row is a token that attends to the tokens of the columns. No `
      + `shade is 0, full shade is ${most.toFixed(4)}; a whole row adds up to 1. Point at a cell to `
      + "read its weight.";
  }

  function showGrid() {
    const [, rows, columns] = among(), [red, green, blue] = colour("--heat").split(",").map(Number);
    for (const button of $("grid").querySelectorAll("button")) {
      const values = matrix(+button.dataset.layer, +button.dataset.head), most = greatest(values);
      const canvas = button.firstChild, context = canvas.getContext("2d");
      Object.assign(canvas, {width: columns.length, height: rows.length});
      const image = context.createImageData(columns.length, rows.length);
      rows.forEach((r, i) => columns.forEach((c, j) => image.data.set([red, green, blue,
        255 * values[r * size + c] / most], 4 * (i * columns.length + j))));
      context.putImageData(image, 0, 0);
    }
  }

  function show() {
    const values = matrix(layer, head);
    [$("layer").value, $("head").value] = [layer, head];
    select($("grid"), $("grid").querySelector(`[data-layer="${layer}"][data-head="${head}"]`));
    showTokens(values);
    showMeans(values);
    showMap(values);
  }

  const choose = (newLayer, newHead) => { [layer, head] = [newLayer, newHead]; show(); };
  const chooseToken = at => { if (chosen !== at) { chosen = at; show(); } };
  $("layer").append(...range(1, layers + 1).map(number => option(number, number)));
  $("head").append(option(0, "mean of all"), ...range(1, heads + 1).map(n => option(n, n)));
  $("among").append(...Object.entries(AMONG).map(([key, [text]]) => option(key, text)));
  $("tokens").append(...tokens.flatMap((token, each) => {
    const button = element("button", {type: "button", value: each}, token, element("small", {}));
    for (const event of ["focus", "pointerenter", "click"])
      button.addEventListener(event, () => chooseToken(each));
    return each && texts[each] !== texts[each - 1] ? [element("hr", {}), button] : [button];
  }));
  $("grid").style.setProperty("--columns", heads + 1);
  const headings = ["", "mean", ...range(1, heads + 1)].map(each => element("span", {}, each));
  $("grid").append(...headings,
    ...range(1, layers + 1).flatMap(l => [element("span", {}, l), ...range(0, heads + 1).map(h => {
      const label = `layer ${l}, ${name(h)}`, button = element("button", {type: "button",
        "data-layer": l, "data-head": h, title: label, "aria-label": label}, element("canvas", {}));
      for (const event of ["focus", "click"]) button.addEventListener(event, () => choose(l, h));
      return button;
    })]));
  addArrowKeys($("tokens"), 1);
  addArrowKeys($("grid"), heads + 1);
  $("layer").addEventListener("change", event => choose(+event.target.value, head));
  $("head").addEventListener("change", event => choose(layer, +event.target.value));
  $("side").addEventListener("change", show);
  const redraw = () => { showGrid(); show(); };
  $("among").addEventListener("change", redraw);
  addEventListener("resize", show);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  $("attention").hidden = false;
  redraw();
}
