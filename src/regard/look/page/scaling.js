/**
 * Classical multidimensional scaling (Torgerson 1952): points in the plane whose distances are as near as can be to
 * those given.
 *
 *     B = −½ J D² J,   J = I − 1/n,   points = two leading eigenvectors of B, times the roots of their eigenvalues
 */

const ROUNDS = 400;

/**
 * @param {number[][]} distances symmetric, n × n
 * @returns {[number, number][]} n points around (0, 0)
 */
export function plane(distances) {
  const count = distances.length;
  const centred = centre(distances.map((row) => row.map((distance) => -0.5 * distance * distance)));
  const dominant = leading(centred, []);
  const shift = Math.max(-dominant.value, 0); // distances that no plane has give negative eigenvalues; the shift keeps these from being the largest
  const shifted = centred.map((row, i) => row.map((value, j) => value + (i === j ? shift : 0)));
  const first = shift ? leading(shifted, []) : dominant;
  const second = leading(shifted, [first.vector]);
  const [along, across] = [first, second].map(({ value, vector }) => {
    const length = Math.sqrt(Math.max(value - shift, 0));
    return vector.map((entry) => entry * length);
  });
  return Array.from({ length: count }, (_, at) => [along[at], across[at]]);
}

/** @param {number[][]} matrix */
function centre(matrix) {
  const mean = (/** @type {number[]} */ values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const rows = matrix.map(mean);
  const all = mean(rows);
  return matrix.map((row, i) => row.map((value, j) => value - rows[i] - rows[j] + all));
}

/**
 * The eigenvector whose eigenvalue is largest in size, among those at right angles to `others`: by repeated
 * multiplication.
 *
 * @param {number[][]} matrix symmetric
 * @param {number[][]} others
 */
function leading(matrix, others) {
  let vector = unit(
    matrix.map((_, at) => Math.sin(1 + 12.9898 * at)),
    others,
  );
  let value = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const image = matrix.map((row) => dot(row, vector));
    value = dot(image, vector);
    vector = unit(image, others);
  }
  const tallest = vector.reduce((most, entry) => (Math.abs(entry) > Math.abs(most) ? entry : most), 0);
  return { value, vector: tallest < 0 ? vector.map((entry) => -entry) : vector };
}

/**
 * @param {number[]} vector
 * @param {number[][]} others
 */
function unit(vector, others) {
  const rest = others.reduce((left, other) => {
    const share = dot(left, other);
    return left.map((entry, at) => entry - share * other[at]);
  }, vector);
  const length = Math.sqrt(dot(rest, rest));
  return length > 1e-12 ? rest.map((entry) => entry / length) : rest.map(() => 0);
}

/**
 * @param {number[]} a
 * @param {number[]} b
 */
function dot(a, b) {
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += a[at] * b[at];
  return sum;
}
