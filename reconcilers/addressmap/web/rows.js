/* A table of many items in a region that scrolls: only the rows in view are in the document. */
const VIEW = 560, AROUND = 200, USUAL_HEIGHT = 29;

/* A column has a title, `show(item)` for the cell, and maybe `by(item)` to sort by, `isNumber`, `name` of its class. */
class RowTable {
  constructor({id, label, columns, sorted, empty}) {
    Object.assign(this, {id, columns, sorted, empty, items: [], order: [], offsets: [0], top: 0});
    this.rows = new Map();
    this.heights = new Map();
    this.table = make("table", undefined, {id: id || "", className: "rows"});
    this.region = make("div", undefined, {className: "wide", tabIndex: 0});
    this.region.setAttribute("role", "region");
    this.region.setAttribute("aria-label", label);
    const head = make("thead"), group = make("colgroup");
    group.append(...columns.map(({name}) => make("col", undefined, {className: `c-${name}`})));
    this.head = make("tr");
    this.head.setAttribute("aria-rowindex", 1);
    head.append(this.head);
    this.above = this.spacer();
    this.below = this.spacer();
    this.body = make("tbody");
    this.body.append(this.above, this.below);
    this.table.append(group, head, this.body);
    this.region.append(this.table);
    this.region.onscroll = () => { this.top = this.region.scrollTop; mark(this); };
    this.fillHead();
  }
  spacer() {
    const row = make("tr", undefined, {className: "spacer", hidden: true});
    row.setAttribute("aria-hidden", "true");
    row.append(make("td", undefined, {colSpan: this.columns.length}));
    return row;
  }
  fillHead() {
    const focused = this.head.contains(document.activeElement) ? document.activeElement.dataset.sort : null;
    this.head.replaceChildren(...this.columns.map(({title, by, isNumber, isDescending}) => {
      const cell = make("th", by ? undefined : title, {scope: "col", className: isNumber ? "n" : ""});
      if (!by) return cell;
      const button = make("button", title, {type: "button", title: `sort by ${title}`});
      button.dataset.sort = `${this.id} ${title}`;
      button.onclick = () => this.sort(title, isNumber || isDescending);
      if (title === this.sorted[0]) cell.setAttribute("aria-sort", this.sorted[1] > 0 ? "ascending" : "descending");
      cell.append(button);
      return cell;
    }));
    if (focused) this.head.querySelector(`[data-sort="${CSS.escape(focused)}"]`)?.focus();
  }
  sort(title, isDescending) {
    const [before, direction] = this.sorted;
    this.sorted = [title, before === title ? -direction : isDescending ? -1 : 1];
    this.fillHead();
    this.show(this.items);
  }
  /* Show items, each with a `key` of its own; a row stays as long as its item is the same object. */
  show(items) {
    this.items = items;
    const by = this.sorted && this.columns.find(({title}) => title === this.sorted[0]).by;
    if (by) {
      const keyed = items.map((item) => [by(item), item]), direction = this.sorted[1];
      this.order = keyed.sort(([a], [b]) => a < b ? -direction : a > b ? direction : 0).map(([, item]) => item);
    } else this.order = items;
    this.place();
    mark(this);
  }
  /* Forget what was drawn, as colours or widths have changed. */
  forget() {
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
    this.heights.clear();
    this.place();
    mark(this);
  }
  /* Compute where each row begins. */
  place() {
    let offset = 0;
    this.offsets = this.order.map(({key}) => { const start = offset; offset += this.heights.get(key) ?? USUAL_HEIGHT; return start; });
    this.offsets.push(offset);
  }
  indexAt(offset) {
    let low = 0, high = this.order.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.offsets[middle + 1] <= offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }
  draw() {
    const length = this.order.length, total = this.offsets[length];
    const top = Math.max(0, Math.min(this.top, total - VIEW));
    const first = printing ? 0 : this.indexAt(top - AROUND), beyond = printing ? length : Math.min(length, this.indexAt(top + VIEW + AROUND) + 1);
    const focus = this.focused(), kept = new Set();
    for (let at = first; at < beyond; at += 1) kept.add(this.order[at].key);
    for (const [key, row] of this.rows) if (!kept.has(key)) { row.remove(); this.rows.delete(key); }
    let after = this.above;
    for (let at = first; at < beyond; at += 1) {
      const row = this.rowOf(this.order[at], at);
      if (after.nextSibling !== row) after.after(row);
      after = row;
    }
    this.showEmpty(length === 0);
    this.fill(first, beyond);
    this.window = [first, beyond];
    this.table.setAttribute("aria-rowcount", length + 1);
    if (focus) this.restore(focus);
  }
  rowOf(item, at) {
    let row = this.rows.get(item.key);
    if (!row || row.item !== item) {
      const fresh = this.build(item);
      row?.replaceWith(fresh);
      row = fresh;
      this.rows.set(item.key, row);
      this.heights.delete(item.key);
    }
    const index = String(at + 2);
    if (row.getAttribute("aria-rowindex") !== index) row.setAttribute("aria-rowindex", index);
    return row;
  }
  build(item) {
    const row = make("tr", undefined, {className: item.isNew ? "new" : ""});
    row.item = item;
    row.append(...this.columns.map(({show, isNumber, isBad}, at) => {
      const cell = make(at ? "td" : "th", undefined, {className: isNumber ? "n" : isBad?.(item) ? "bad" : ""});
      if (!at) cell.scope = "row";
      cell.append(show(item));
      return cell;
    }));
    return row;
  }
  fill(first, beyond) {
    for (const [spacer, height] of [[this.above, this.offsets[first]], [this.below, this.offsets[this.order.length] - this.offsets[beyond]]]) {
      spacer.hidden = height === 0;
      spacer.firstChild.style.height = `${height}px`;
    }
  }
  showEmpty(isEmpty) {
    if (!isEmpty) { this.none?.remove(); this.none = null; return; }
    if (!this.none) { this.none = make("tr"); this.none.append(make("td", "", {colSpan: this.columns.length})); this.above.after(this.none); }
    setText(this.none.firstChild, this.empty());
  }
  /* Learn the heights of rows that were not measured yet: texts may take several lines. */
  measure() {
    let isOther = false;
    for (const [key, row] of this.rows) {
      if (this.heights.has(key)) continue;
      const height = row.offsetHeight;
      if (!height) return;
      this.heights.set(key, height);
      isOther ||= height !== USUAL_HEIGHT;
    }
    if (!isOther || printing) return;
    this.place();
    this.fill(...this.window);
  }
  focused() {
    const node = document.activeElement, row = this.body.contains(node) ? node.closest("tr") : null;
    return row?.item ? {node, key: row.item.key, at: [row, ...row.querySelectorAll("a, button")].indexOf(node)} : null;
  }
  restore({node, key, at}) {
    if (document.activeElement === node) return;
    const row = this.rows.get(key), again = row && [row, ...row.querySelectorAll("a, button")][at];
    (again || this.region).focus({preventScroll: true});
  }
  /* Scroll to an item, and move the focus to its row. */
  reveal(key) {
    const at = this.order.findIndex((item) => item.key === key);
    if (at < 0) return;
    this.top = this.region.scrollTop = Math.max(0, this.offsets[at] - VIEW / 2);
    this.draw();
    this.measure();
    const row = this.rows.get(key);
    row.tabIndex = -1;
    row.scrollIntoView({block: "nearest"});
    row.focus();
  }
}
