/* Wheel, pointers and keys on a map. */
const distance = (fingers) => {
  const [first, second] = [...fingers.values()];
  return second ? Math.hypot(first.clientX - second.clientX, first.clientY - second.clientY) : 0;
};
function listen(panel) {
  const {canvas} = panel;
  const fingers = new Map();
  let held = null, moved = false, apart = 0;
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
    event.preventDefault();
    zoom(panel, event.deltaY < 0 ? 0.5 : 2, addressAt(panel, event));
  }, {passive: false});
  canvas.onpointerdown = (event) => {
    canvas.focus({preventScroll: true});
    fingers.set(event.pointerId, event);
    canvas.setPointerCapture(event.pointerId);
    held = addressAt(panel, event);
    moved = false;
    apart = distance(fingers);
  };
  canvas.onpointermove = (event) => {
    if (!fingers.has(event.pointerId)) {
      if (panel.cursor === null) say(panel, extentAt(panel.pool, addressAt(panel, event)));
      return;
    }
    const before = fingers.get(event.pointerId);
    if (Math.hypot(event.clientX - before.clientX, event.clientY - before.clientY) < 3 && !moved) return;
    moved = true;
    fingers.set(event.pointerId, event);
    if (fingers.size === 2) {
      const now = distance(fingers);
      if (apart > 0 && now > 0) zoom(panel, apart / now, held);
      apart = now;
    } else if (fingers.size === 1) {
      panel.from += held - addressAt(panel, event);
      panel.change();
    }
  };
  canvas.onpointerleave = () => say(panel);
  canvas.onpointerup = canvas.onpointercancel = (event) => {
    const pressed = fingers.delete(event.pointerId);
    if (pressed && !moved && event.type === "pointerup" && fingers.size === 0) point(panel, addressAt(panel, event));
  };
  canvas.onkeydown = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const perRow = perRowOf(panel), step = larger(1n, perRow / 64n), here = panel.cursor ?? panel.from;
    const act = {
      "+": () => zoom(panel, 0.5), "=": () => zoom(panel, 0.5), "-": () => zoom(panel, 2), "0": () => whole(panel), u: () => usedPart(panel),
      ArrowRight: () => point(panel, here + step, true), ArrowLeft: () => point(panel, here - step, true),
      ArrowDown: () => point(panel, here + perRow, true), ArrowUp: () => point(panel, here - perRow, true),
      PageDown: () => point(panel, here + panel.span, true), PageUp: () => point(panel, here - panel.span, true),
      Home: () => point(panel, 0n, true), End: () => point(panel, panel.pool.size - 1n, true),
      n: () => jump(panel, 1), p: () => jump(panel, -1),
      Escape: () => { panel.cursor = null; say(panel); panel.change(); },
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };
}
