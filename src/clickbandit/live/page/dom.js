// Elements, and how a page is brought up to date: a view is made anew from its data, and then only what differs is
// changed, so that focus, selection and scrolling stay where they are.

const SVG = "http://www.w3.org/2000/svg";

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

export const h = (name, attributes, ...children) => build(document.createElement(name), attributes, children);
export const s = (name, attributes, ...children) => build(document.createElementNS(SVG, name), attributes, children);

export function morph(old, made) {
  if (old.nodeType !== made.nodeType || old.nodeName !== made.nodeName) {
    old.replaceWith(made);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== made.data) old.data = made.data;
    return;
  }
  for (const {name} of [...old.attributes]) if (!made.hasAttribute(name)) old.removeAttribute(name);
  for (const {name, value} of [...made.attributes]) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  fill(old, [...made.childNodes]);
}

export function fill(parent, nodes) {
  const old = [...parent.childNodes];
  nodes.forEach((node, k) => (k < old.length ? morph(old[k], node) : parent.append(node)));
  old.slice(nodes.length).forEach((node) => node.remove());
}

// A table: columns are [heading, attributes, cell], where cell makes a cell's content of a row.
export function table(caption, columns, rows, rowAttributes = () => ({})) {
  return h("div", {class: "wide", tabindex: 0, role: "group", "aria-label": caption}, h("table", {},
    h("caption", {class: "unseen"}, caption),
    h("thead", {}, h("tr", {}, columns.map(([heading, attributes]) => h("th", {scope: "col", ...attributes}, heading)))),
    h("tbody", {}, rows.map((row) => h("tr", rowAttributes(row), columns.map(([, attributes, cell]) =>
      h("td", {class: attributes?.class}, cell(row)))))),
  ));
}
