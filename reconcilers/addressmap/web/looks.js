/* Colours and patterns: of tenants, and of states that no tenant is behind. */
const darkQuery = window.matchMedia("(prefers-color-scheme: dark)");
let printing = false;
const isDark = () => darkQuery.matches && !printing;
const lookName = ({colour, pattern}) => `look-${pattern}-${colour}`;
const tiles = new Map();

const fillOf = (look) => (isDark() ? store.style.darkFills : store.style.fills)[look.colour];
const inkOf = () => isDark() ? "#0d1117" : "#ffffff";
const pathOf = (look) => store.style.patterns[look.pattern][1];

/* Fill the page's patterns of SVG, and forget those of canvases. There are as many as looks. */
function makePatterns() {
  tiles.clear();
  const {fills, patterns, tile} = store.style;
  const looks = patterns.flatMap((_, pattern) => fills.map((__, colour) => ({colour, pattern})));
  document.querySelector("#patterns defs").replaceChildren(...looks.map((look) => {
    const node = drawing("pattern", {id: lookName(look), width: tile, height: tile, patternUnits: "userSpaceOnUse"});
    node.append(
      drawing("rect", {width: tile, height: tile, fill: fillOf(look)}),
      drawing("path", {d: pathOf(look), stroke: inkOf(), "stroke-width": 1.6, fill: "none"}),
    );
    return node;
  }));
}
/* Return what a canvas fills a look with. */
function tileOf(pen, look) {
  const name = lookName(look), {tile: size} = store.style;
  if (!tiles.has(name)) {
    const tile = make("canvas", undefined, {width: size, height: size}), brush = tile.getContext("2d");
    brush.fillStyle = fillOf(look);
    brush.fillRect(0, 0, size, size);
    brush.strokeStyle = inkOf();
    brush.lineWidth = 1.6;
    brush.stroke(new Path2D(pathOf(look)));
    tiles.set(name, pen.createPattern(tile, "repeat"));
  }
  return tiles.get(name);
}
const stateFill = (state) => isDark() ? store.style.states[state].dark : store.style.states[state].fill;
const fillFor = (pen, extent) => {
  const look = store.style.states[extent.state].byTenant && lookOf(tenantOf(extent));
  return look ? tileOf(pen, look) : stateFill(extent.state);
};

/* A tenant's name beside its look. */
function swatch(tenant) {
  const box = drawing("svg", {class: "swatch", width: 16, height: 14, "aria-hidden": "true"});
  box.append(drawing("rect", {width: 16, height: 14, fill: `url(#${lookName(lookOf(tenant))})`}));
  return box;
}
function tenantLink(name) {
  const link = addName(make("a", undefined, {href: "#overview", title: `show only ${name}`}), name);
  link.onclick = (event) => { event.preventDefault(); chooseTenant(name); };
  return link;
}
function tenantLabel(name) {
  const box = make("span");
  if (lookOf(name)) box.append(swatch(name));
  box.append(tenantLink(name));
  return box;
}
