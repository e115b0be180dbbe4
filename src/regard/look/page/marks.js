/**
 * Marks over a picture: lines between patches and windows, arrows, the path of glimpses. They have a rim, so that they
 * show on any picture.
 *
 * @typedef {[x: number, y: number]} Point
 * @typedef {{colour: string, rim: string}} Inks
 */

const HEAD = 9;
const LINES_FROM = 14; // pixels of a patch from which on lines are drawn between patches

/**
 * Faint lines between patches, strong ones between windows.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {import("./grid.js").Grid} grid
 * @param {[number, number][]} borders neighbouring items in different windows
 * @param {number} wide
 * @param {number} high
 * @param {{paper: string, ink: string, line: string}} inks
 */
export function lines(context, grid, borders, wide, high, inks) {
  const { rows, columns } = grid;
  if (Math.min(wide / columns, high / rows) >= LINES_FROM) {
    context.beginPath();
    for (let row = 1; row < rows; row++) line(context, 0, (row * high) / rows, wide, (row * high) / rows);
    for (let at = 1; at < columns; at++) line(context, (at * wide) / columns, 0, (at * wide) / columns, high);
    context.strokeStyle = inks.line;
    context.globalAlpha = 0.6;
    context.stroke();
    context.globalAlpha = 1;
  }
  context.beginPath();
  for (const [one, other] of borders) {
    const { x, y, width, height } = grid.box(other, wide, high);
    if (other === one + 1) line(context, x, y, x, y + height);
    else line(context, x, y, x + width, y);
  }
  twice(context, { colour: inks.ink, rim: inks.paper }, 2, () => context.stroke());
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {import("./grid.js").Box} box
 * @param {Inks} inks
 */
export function outline(context, { x, y, width, height }, inks) {
  twice(context, inks, 3, () => context.strokeRect(x, y, width, height));
}

/**
 * An arrow of a width, with a rim.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Point} from
 * @param {Point} to
 * @param {number} width
 * @param {Inks} inks
 */
export function arrow(context, [x, y], [right, down], width, { colour, rim }) {
  const angle = Math.atan2(down - y, right - x);
  const size = HEAD + width;
  const [back, side] = [Math.cos(angle) * size, Math.sin(angle) * size];
  const shaft = () => {
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(right - 0.8 * back, down - 0.8 * side);
    context.stroke();
  };
  const head = () => {
    context.beginPath();
    context.moveTo(right, down);
    context.lineTo(right - back - side * 0.45, down - side + back * 0.45);
    context.lineTo(right - back + side * 0.45, down - side - back * 0.45);
    context.closePath();
  };
  context.lineCap = "round";
  context.strokeStyle = rim;
  context.lineWidth = width + 3;
  shaft();
  context.lineWidth = 3;
  head();
  context.stroke();
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = width;
  shaft();
  head();
  context.fill();
  context.lineWidth = 1;
  context.lineCap = "butt";
}

/**
 * A path from point to point, with a number at each; the chosen one stands out.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {(Point | null)[]} points
 * @param {number} chosen
 * @param {Inks} inks
 */
export function path(context, points, chosen, { colour, rim }) {
  context.beginPath();
  context.lineJoin = "round";
  for (const point of points) if (point) context.lineTo(...point);
  twice(context, { colour, rim }, 2, () => context.stroke());
  context.font = "600 11px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  const order = points.map((_, at) => at).filter((at) => at !== chosen);
  for (const at of [...order, chosen]) {
    const point = points[at];
    if (!point) continue;
    context.beginPath();
    context.arc(...point, at === chosen ? 11 : 9, 0, 2 * Math.PI);
    context.fillStyle = at === chosen ? colour : rim;
    context.strokeStyle = at === chosen ? rim : colour;
    context.lineWidth = 2;
    context.fill();
    context.stroke();
    context.fillStyle = at === chosen ? rim : colour;
    context.fillText(String(at + 1), point[0], point[1] + 0.5);
  }
  context.lineWidth = 1;
}

/**
 * Draws something twice: wider as its rim, then itself.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Inks} inks
 * @param {number} width
 * @param {() => void} stroke
 */
function twice(context, { colour, rim }, width, stroke) {
  context.lineWidth = width + 3;
  context.strokeStyle = rim;
  stroke();
  context.lineWidth = width;
  context.strokeStyle = colour;
  stroke();
  context.lineWidth = 1;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} x
 * @param {number} y
 * @param {number} right
 * @param {number} down
 */
function line(context, x, y, right, down) {
  context.moveTo(x, y);
  context.lineTo(right, down);
}
