/* Colours and patterns: of tenants, and of states that no tenant is behind. */
const darkQuery = window.matchMedia("(prefers-color-scheme: dark)");
let printing = false;
const isDark = () => darkQuery.matches && !printing;
const lookName = ({colour, pattern}) => `look-${pattern}-${colour}`;
const tiles = new Map();

const fillOf = (look) => (isDark() ? DATA.darkFills : DATA.fills)[look.colour];
const inkOf = () => isDark() ? "#0d1117" : "#ffffff";

/* Fill the page's patterns of SVG, and forget those of canvases. */
function makePatterns() {
  tiles.clear();
  const box = document.querySelector("#patterns defs"), known = new Map();
  for (const look of Object.values(DATA.looks)) known.set(lookName(look), look);
  box.replaceChildren(...[...known].map(([name, look]) => {
    const pattern = drawing("pattern", {id: name, width: DATA.tile, height: DATA.tile, patternUnits: "userSpaceOnUse"});
    pattern.append(
      drawing("rect", {width: DATA.tile, height: DATA.tile, fill: fillOf(look)}),
      drawing("path", {d: DATA.patterns[look.pattern], stroke: inkOf(), "stroke-width": 1.6, fill: "none"}),
    );
    return pattern;
  }));
}
/* What a canvas fills a look with. */
function tileOf(pen, look) {
  const name = lookName(look);
  if (!tiles.has(name)) {
    const tile = make("canvas", undefined, {width: DATA.tile, height: DATA.tile}), brush = tile.getContext("2d");
    brush.fillStyle = fillOf(look);
    brush.fillRect(0, 0, DATA.tile, DATA.tile);
    brush.strokeStyle = inkOf();
    brush.lineWidth = 1.6;
    brush.stroke(new Path2D(DATA.patterns[look.pattern]));
    tiles.set(name, pen.createPattern(tile, "repeat"));
  }
  return tiles.get(name);
}
const stateFill = (state) => isDark() ? DATA.states[state].dark : DATA.states[state].fill;
function fillFor(pen, one) {
  const look = DATA.states[one.state].byTenant && DATA.looks[tenantOf(one)];
  return look ? tileOf(pen, look) : stateFill(one.state);
}
/* A tenant's name beside its look. */
function swatch(name) {
  const box = drawing("svg", {class: "swatch", width: 16, height: 14, "aria-hidden": "true"});
  box.append(drawing("rect", {width: 16, height: 14, fill: `url(#${lookName(DATA.looks[name])})`}));
  return box;
}
function tenantLink(name) {
  const link = named(make("a", undefined, {href: "#overview", title: `show only ${name}`}), name);
  link.onclick = (event) => { event.preventDefault(); choose(name); };
  return link;
}
function tenantLabel(name) {
  const box = make("span");
  if (DATA.looks[name]) box.append(swatch(name));
  box.append(tenantLink(name));
  return box;
}
