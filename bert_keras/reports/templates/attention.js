// The attention section: the tokens, one attention map, and a grid of all maps.
function attention({pieces, texts, cls, sep, steps, weights}) {
  const all = new Uint16Array(Uint8Array.from(atob(weights), each => each.charCodeAt(0)).buffer);
  const size = pieces.length, {num_layers: layers, num_heads: heads} = DATA;
  const isEnd = at => at === 0 || pieces[at] === sep;
  const of = text => range(0, size).filter(at => texts[at] === text && !isEnd(at));
  const AMONG = {
    all: ["all pieces", range(0, size), range(0, size)],
    words: [`all but ${cls} and ${sep}`, [...of(0), ...of(1)], [...of(0), ...of(1)]],
    ...of(1).length && {across: ["first text to second", of(0), of(1)],
      back: ["second text to first", of(1), of(0)]},
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

  /** Weights of the chosen token: its attention to other tokens, or theirs to it. */
  function row(values) {
    const [, rows, columns] = among();
    const shown = isRow() ? [rows, columns] : [columns, rows];
    return shown[0].includes(chosen) ? shown[1].map(each => [each,
      isRow() ? values[chosen * size + each] : values[each * size + chosen]]) : [];
  }

  function showTokens(values) {
    const weights = new Map(row(values)), most = Math.max(1e-9, ...weights.values());
    for (const button of $("tokens").querySelectorAll("button")) {
      const weight = weights.get(+button.value);
      button.style.setProperty("--share", (weight || 0) / most);
      button.lastChild.textContent = weight >= 0.005 ? percent(weight) : "";
      if (+button.value === chosen) press($("tokens"), button);
    }
    const mostFirst = [...weights].sort((a, b) => b[1] - a[1]).slice(0, MOST_NAMED);
    const told = !weights.size ? "stands outside of what is shown"
      : isRow() ? "looks at" : "is looked at by";
    $("told").replaceChildren(element("b", {}, pieces[chosen]), ` (${chosen}) ${told} `,
      ...mostFirst.flatMap(([each, weight], at) => [at ? ", " : "",
        element("bdi", {class: "piece"}, pieces[each]), ` ${percent(weight)}`]));
  }

  /** Shows what a head attends to, as the mean over all tokens. */
  function showHabits(values) {
    const to = columns => sum(range(0, size).flatMap(r => columns(r)
      .map(c => c >= 0 && c < size ? values[r * size + c] : 0))) / size;
    const ends = range(0, size).filter(each => pieces[each] === sep);
    const shares = [[cls, to(() => [0])], [sep, to(() => ends)], ["itself", to(r => [r])],
      ["the piece before", to(r => [r - 1])], ["the piece after", to(r => [r + 1])]];
    $("habits").textContent = `Layer ${layer}, ${name(head)}: a piece looks on average at `
      + shares.map(([what, share]) => `${what} ${percent(share)}`).join(", ") + ".";
  }

  function showMap(values) {
    const [, rows, columns] = among(), most = greatest(values);
    const room = Math.min(460, $("attention").clientWidth - 100);  // width without the row labels
    const longest = Math.max(rows.length, columns.length);
    const cell = Math.min(28, Math.max(9, Math.floor(room / longest)));
    const canvas = $("map"), pen = canvas.getContext("2d"), dense = devicePixelRatio || 1;
    const font = `${Math.min(13, cell)}px system-ui, sans-serif`;
    const short = at => pieces[at].length > 12 ? `${pieces[at].slice(0, 11)}…` : pieces[at];
    pen.font = `bold ${font}`;
    const widths = range(0, size).map(at => pen.measureText(short(at)).width);
    const margin = 8 + Math.ceil(Math.max(...widths));
    const [width, height] = [margin + columns.length * cell + 2, margin + rows.length * cell + 2];
    Object.assign(canvas, {width: width * dense, height: height * dense});
    Object.assign(canvas.style, {width: `${width}px`, height: `${height}px`});
    canvas.setAttribute("aria-label", `Map of layer ${layer}, ${name(head)}; the pieces above tell `
      + "its numbers");
    pen.scale(dense, dense);
    const label = (at, isChosen, draw) => {
      pen.font = isChosen ? `bold ${font}` : font;
      draw(short(at));
    };
    pen.fillStyle = colour("--ink");
    pen.textBaseline = "middle";
    rows.forEach((r, i) => label(r, isRow() && r === chosen, text => {
      pen.textAlign = "right";
      pen.fillText(text, margin - 5, margin + (i + .5) * cell);
    }));
    columns.forEach((c, i) => label(c, !isRow() && c === chosen, text => {
      pen.save();
      pen.translate(margin + (i + .5) * cell, margin - 5);
      pen.rotate(-Math.PI / 2);
      pen.textAlign = "left";
      pen.fillText(text, 0, 0);
      pen.restore();
    }));
    pen.strokeStyle = colour("--line");
    pen.strokeRect(margin - .5, margin - .5, columns.length * cell + 1, rows.length * cell + 1);
    rows.forEach((r, i) => columns.forEach((c, j) => {
      pen.fillStyle = `rgba(${colour("--heat")}, ${values[r * size + c] / most})`;
      pen.fillRect(margin + j * cell, margin + i * cell, cell - (cell > 12), cell - (cell > 12));
    }));
    pen.strokeStyle = colour("--ink");
    const [line, place] = isRow() ? [columns, rows.indexOf(chosen)]
      : [rows, columns.indexOf(chosen)];
    const side = line.length * cell, begin = margin + place * cell - .5;
    if (place >= 0) pen.strokeRect(...isRow() ? [margin - .5, begin, side, cell]
      : [begin, margin - .5, cell, side]);
    canvas.onpointermove = canvas.onpointerdown = event => {
      const [j, i] = [event.offsetX, event.offsetY].map(each => Math.floor((each - margin) / cell));
      if (!(rows[i] >= 0 && columns[j] >= 0)) return hideTip();
      const [from, to] = [rows[i], columns[j]];
      choosePiece(isRow() ? from : to);
      showTip(event, `${pieces[from]} (${from}) looks at ${pieces[to]} (${to}): `
        + values[from * size + to].toFixed(4));
    };
    canvas.onpointerleave = hideTip;
    $("scale").textContent = `A row is a piece that looks at the columns: no shade is 0, the full `
      + `one ${most.toFixed(4)}; the whole row adds up to 1. Point at a cell to read it.`;
  }

  function showGrid() {
    const [, rows, columns] = among(), [red, green, blue] = colour("--heat").split(",").map(Number);
    for (const button of $("grid").querySelectorAll("button")) {
      const values = matrix(+button.dataset.layer, +button.dataset.head), most = greatest(values);
      const canvas = button.firstChild, pen = canvas.getContext("2d");
      Object.assign(canvas, {width: columns.length, height: rows.length});
      const image = pen.createImageData(columns.length, rows.length);
      rows.forEach((r, i) => columns.forEach((c, j) => image.data.set([red, green, blue,
        255 * values[r * size + c] / most], 4 * (i * columns.length + j))));
      pen.putImageData(image, 0, 0);
    }
  }

  function show() {
    const values = matrix(layer, head);
    [$("layer").value, $("head").value] = [layer, head];
    press($("grid"), $("grid").querySelector(`[data-layer="${layer}"][data-head="${head}"]`));
    showTokens(values);
    showHabits(values);
    showMap(values);
  }

  const choose = (newLayer, newHead) => { [layer, head] = [newLayer, newHead]; show(); };
  const choosePiece = piece => { if (chosen !== piece) { chosen = piece; show(); } };
  $("layer").append(...range(1, layers + 1).map(number => option(number, number)));
  $("head").append(option(0, "mean of all"), ...range(1, heads + 1).map(n => option(n, n)));
  $("among").append(...Object.entries(AMONG).map(([key, [text]]) => option(key, text)));
  $("tokens").append(...pieces.flatMap((piece, each) => {
    const button = element("button", {type: "button", value: each}, piece, element("small", {}));
    for (const event of ["focus", "pointerenter", "click"])
      button.addEventListener(event, () => choosePiece(each));
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
  walk($("tokens"), 1);
  walk($("grid"), heads + 1);
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
