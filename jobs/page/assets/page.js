// Shows what the element #report has. All text goes into the document as text: no name of a topic,
// group or key is ever parsed as HTML, and nothing is loaded.
"use strict";
(function () {
  const PAGE_ROWS = 50;
  const report = JSON.parse(document.getElementById("report").textContent);

  // An element with a class, a text and children, each of which may be left out.
  function make(name, kind, text, children) {
    const made = document.createElement(name);
    if (kind) made.className = kind;
    if (text !== undefined && text !== null) made.textContent = text;
    for (const child of children || []) made.append(child);
    return made;
  }

  // How a column's cells are set: numbers to the right, times on one line.
  function setting([name, number]) {
    if (number) return "number";
    return /^(from|oldest|newest|put|due) \(/.test(name) ? "time" : "";
  }

  function shown(value) {
    if (value === null) return "–";
    return typeof value === "number" ? value.toLocaleString("en-US") : value;
  }

  // A button that copies the text of an element; a page that was opened from a file selects it.
  function copies(element) {
    const button = make("button", "copied", "Copy");
    button.addEventListener("click", function () {
      getSelection().selectAllChildren(element);
      const copied = navigator.clipboard
        ? navigator.clipboard.writeText(element.textContent) : Promise.reject(new Error());
      copied.then(() => true, () => document.execCommand("copy")).then(function (done) {
        button.textContent = done ? "Copied" : "Selected: press Ctrl+C";
      });
    });
    return button;
  }

  // --- tables: some rows at a time, sorted by a heading's button, filtered by a field -------------

  function order(column, down) {
    return function (a, b) {
      const [x, y] = [a[column], b[column]];
      if (x === y) return 0;
      if (x === null) return 1; // what is not known comes last, both ways
      if (y === null) return -1;
      const less = typeof x === typeof y ? x < y : String(x) < String(y);
      return (less ? -1 : 1) * (down ? -1 : 1);
    };
  }

  function fill(details, table) {
    let rows = table.rows;
    let first = 0;
    let sorted = { column: -1, down: false };
    const body = make("tbody");
    const status = make("span", "soft");
    status.setAttribute("role", "status");
    const before = make("button", "", "Previous");
    const after = make("button", "", "Next");
    const buttons = [];

    function draw() {
      body.replaceChildren(...rows.slice(first, first + PAGE_ROWS).map(function (row) {
        return make("tr", "", undefined, row.map(function (value, n) {
          const kind = setting(table.columns[n]);
          return kind ? make("td", kind, shown(value))
            : make("td", "", undefined, [make("div", "text", shown(value))]);
        }));
      }));
      const last = Math.min(first + PAGE_ROWS, rows.length);
      status.textContent = rows.length
        ? `Rows ${first + 1} to ${last} of ${rows.length.toLocaleString("en-US")}` : "No row";
      before.disabled = first === 0;
      after.disabled = last === rows.length;
      buttons.forEach(function (button, n) {
        button.parentNode.setAttribute("aria-sort",
          n !== sorted.column ? "none" : sorted.down ? "descending" : "ascending");
      });
    }

    function choose(text) {
      const wanted = text.toLowerCase();
      rows = table.rows.filter((row) =>
        !wanted || row.some((value) => shown(value).toLowerCase().includes(wanted)));
      if (sorted.column >= 0) rows = rows.slice().sort(order(sorted.column, sorted.down));
      first = 0;
      draw();
    }

    const filter = make("input");
    filter.type = "search";
    filter.setAttribute("aria-label", `Filter ${table.name}`);
    filter.placeholder = "Filter";
    let waiting;
    filter.addEventListener("input", function () {
      clearTimeout(waiting);
      waiting = setTimeout(() => choose(filter.value), 150);
    });
    before.addEventListener("click", function () {
      first = Math.max(first - PAGE_ROWS, 0);
      draw();
    });
    after.addEventListener("click", function () {
      first += PAGE_ROWS;
      draw();
    });
    const heads = table.columns.map(function ([name, number], n) {
      const button = make("button", "", name);
      button.addEventListener("click", function () {
        sorted = { column: n, down: sorted.column === n ? !sorted.down : number };
        choose(filter.value);
      });
      buttons.push(button);
      const head = make("th", number ? "number" : "", undefined, [button]);
      head.scope = "col";
      return head;
    });
    const whole = make("table", "", undefined, [
      make("caption", "soft", table.cut ? `${table.name}: ${table.cut}` : table.name),
      make("thead", "", undefined, [make("tr", "", undefined, heads)]),
      body,
    ]);
    const tools = table.rows.length > PAGE_ROWS ? [filter, before, after, status] : [];
    const scroll = make("div", "scroll", undefined, [whole]);
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", table.name);
    if (tools.length) details.append(make("div", "tools", undefined, tools));
    details.append(scroll);
    draw();
  }

  function tableOf(table) {
    const many = table.rows.length;
    const count = `${many.toLocaleString("en-US")} row${many === 1 ? "" : "s"}`;
    const details = make("details", "", undefined, [
      make("summary", "", `Table: ${table.name}, ${count}${table.cut ? ` (${table.cut})` : ""}`),
    ]);
    details.open = table.open;
    details.addEventListener("toggle", function once() {
      details.removeEventListener("toggle", once);
      fill(details, table);
    });
    return details;
  }

  // --- pictures: one after the other, so that the page can be read meanwhile ----------------------

  const CONFIG = {
    background: "transparent",
    aria: false, // the element around has role and label; the table has the values
    font: "system-ui, sans-serif",
    view: { stroke: "transparent" },
    axis: {
      labelColor: "var(--ink)", titleColor: "var(--soft)", gridColor: "var(--line)",
      domainColor: "var(--line)", tickColor: "var(--line)", labelFontSize: 12, titleFontSize: 12,
      titleFontWeight: "normal",
    },
    scale: { bandPaddingInner: 0.3 },
    legend: {
      labelColor: "var(--ink)", orient: "bottom", labelFontSize: 12, symbolType: "square",
    },
  };
  const loader = { load: refuse, sanitize: refuse, http: refuse, file: refuse };

  function refuse() {
    return Promise.reject(new Error("this page loads nothing"));
  }

  const pen = document.createElement("canvas").getContext("2d");

  // An expression that takes so much out of the middle of long names that all have room: a queue's
  // id stands at the end.
  function shortened(names, room) {
    const cut = (name, most) => name.length <= most ? name
      : `${name.slice(0, most - 1 - Math.floor(most / 2.5))}…${name.slice(-Math.floor(most / 2.5))}`;
    pen.font = "12px system-ui, sans-serif";
    let most = Math.max(8, ...names.map((name) => name.length));
    while (most > 8 && names.some((name) => pen.measureText(cut(name, most)).width > room)) most--;
    const end = Math.floor(most / 2.5);
    return `length(datum.label) > ${most} ? slice(datum.label, 0, ${most - 1 - end}) + "…"`
      + ` + slice(datum.label, -${end}) : datum.label`;
  }

  function draw(spec, into) {
    const room = into.clientWidth < 600 ? 150 : 250;
    const columns = Math.max(1, Math.floor(into.clientWidth / 270));
    const config = {
      ...CONFIG,
      axis: { ...CONFIG.axis, labelLimit: room + 10 },
      legend: { ...CONFIG.legend, columns, labelLimit: 250 },
    };
    const { y, color } = spec.encoding;
    const names = (field) => [...new Set(spec.data.values.map((value) => String(value[field])))];
    if (y.type === "nominal") y.axis = { ...y.axis, labelExpr: shortened(names(y.field), room) };
    if (color) color.legend = { ...color.legend, labelExpr: shortened(names(color.field), 240) };
    const compiled = vegaLite.compile(spec, { config, logger: vega.logger(vega.Error) }).spec;
    const runtime = vega.parse(compiled, null, { ast: true });
    return new vega.View(runtime, {
      expr: expressionInterpreter, renderer: "svg", loader, hover: false, logLevel: vega.Error,
    }).initialize(into).runAsync();
  }

  const drawings = [];

  function pictureOf(picture) {
    const into = make("div", "picture");
    into.setAttribute("role", "img");
    into.setAttribute("aria-label", `${picture.about}. The table below has the numbers.`);
    drawings.push(() => draw(picture.spec, into));
    return make("figure", "", undefined, [make("figcaption", "", picture.about), into]);
  }

  function drawAll() {
    const next = drawings.shift();
    if (!next) {
      document.documentElement.dataset.drawn = "yes";
      return;
    }
    next().catch((error) => console.error(error)).then(() => setTimeout(drawAll));
  }

  // --- the page -----------------------------------------------------------------------------------

  function sectionOf(section) {
    const title = make("h2", "", section.title);
    title.id = `${section.id}-title`;
    const made = make("section", "", undefined, [
      title,
      ...section.alarms.map((text) => make("p", "alarm", text)),
      ...section.words.map((text) => make("p", "", text)),
      ...section.pictures.map(pictureOf),
      ...section.tables.map(tableOf),
      ...section.notes.map((text) => make("p", "soft", text)),
    ]);
    made.id = section.id;
    made.setAttribute("aria-labelledby", title.id);
    return made;
  }

  function linkTo(id, text, kind) {
    const link = make("a", kind, text);
    link.href = `#${id}`;
    return link;
  }

  function verdictOf(verdict) {
    const titles = Object.fromEntries(report.sections.map((each) => [each.id, each.title]));
    const links = verdict.sections.map((id) => linkTo(id, titles[id]));
    const made = make("div", `verdict ${verdict.kind}`, undefined, [
      make("p", "", undefined, [make("strong", "", verdict.text), ...links]),
    ]);
    if (verdict.command) {
      const command = make("code", "command", verdict.command);
      made.append(make("p", "", verdict.advice), command, copies(command));
    }
    return made;
  }

  function figureOf(figure) {
    return make("div", figure.alarm ? "figure bad" : "figure", undefined, [
      make("dt", "", undefined, [linkTo(figure.section, figure.name)]),
      make("dd", "value", figure.value),
      make("dd", "soft", figure.note),
    ]);
  }

  // The list of sections: beside the page where there is room, folded on a phone.
  function contents() {
    const list = make("ul", "", undefined, report.sections.map((each) =>
      make("li", "", undefined, [linkTo(each.id, each.title, each.alarms.length ? "bad" : "")])));
    const folded = make("details", "", undefined, [make("summary", "", "Sections"), list]);
    const wide = matchMedia("(min-width: 64rem)");
    const fit = () => { folded.open = wide.matches; };
    wide.addEventListener("change", fit);
    list.addEventListener("click", fit);
    fit();
    return folded;
  }

  document.getElementById("top").append(
    make("h1", "", report.name),
    make("p", "soft", report.about),
    verdictOf(report.verdict),
    ...report.notes.map((text) => make("p", "soft", text)),
    make("dl", "figures", undefined, report.figures.map(figureOf)),
  );
  document.querySelector("nav").append(contents());
  document.querySelector("footer").textContent = report.made;
  document.getElementById("main").append(...report.sections.map(sectionOf));
  drawAll();
})();
