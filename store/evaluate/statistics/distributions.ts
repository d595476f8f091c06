/**
 * Tails and quantiles of the distributions that intervals and tests need, in double precision.
 *
 * Source: NIST Digital Library of Mathematical Functions (dlmf.nist.gov), by number at each function. Continued fractions are evaluated by
 * Lentz's method (1976, Applied Optics 15). Quantiles are found by bisection of the tail, which cannot diverge.
 */

/** Natural logarithm of Γ(x), x > 0: Stirling's series (5.11.1) from 10 on, reached by Γ(x + 1) = x Γ(x); error below 1e-13. */
export function logGamma(x: number): number {
  let down = 1;
  let at = x;
  for (; at < 10; at++) down *= at;
  const inverse = 1 / (at * at);
  const series = STIRLING.reduceRight((rest, term) => rest * inverse + term, 0) / at;
  return (at - 0.5) * Math.log(at) - at + 0.5 * Math.log(2 * Math.PI) + series - Math.log(down);
}

/** B(2k) / (2k (2k − 1)) for k = 1 to 8, with Bernoulli's numbers B. */
const STIRLING = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360_360, 1 / 156, -3617 / 122_400] as const;

/** The regularised incomplete beta function I_x(a, b), for a, b > 0 and x from 0 to 1 (8.17.22, on the side where it converges fast). */
export function incompleteBeta(a: number, b: number, x: number): number {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x));
  return x < (a + 1) / (a + b + 2) ? (front * fraction(a, b, x)) / a : 1 - (front * fraction(b, a, 1 - x)) / b;
}

function fraction(a: number, b: number, x: number): number {
  const away = (value: number): number => (Math.abs(value) < 1e-300 ? 1e-300 : value);
  let c = 1;
  let d = 1 / away(1 - ((a + b) * x) / (a + 1));
  let total = d;
  for (let m = 1; m <= 10_000; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away(1 + even * d);
    c = away(1 + even / c);
    total *= d * c;
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away(1 + odd * d);
    c = away(1 + odd / c);
    total *= d * c;
    if (Math.abs(d * c - 1) < 1e-16) break;
  }
  return total;
}

/** P(Z ≤ z) of the standard normal distribution. */
export function normalCdf(z: number): number {
  const tail = 0.5 * upperGammaHalf((z * z) / 2);
  return z < 0 ? tail : 1 - tail;
}

/** Q(1/2, x) = erfc(√x): a series for small x, Lentz's continued fraction for large (8.7.1, 8.9.2). */
function upperGammaHalf(x: number): number {
  if (x === 0) return 1;
  const front = Math.exp(-x + 0.5 * Math.log(x) - logGamma(0.5));
  if (x < 1.5) {
    let term = 2;
    let total = term;
    for (let n = 1; term > total * 1e-17; n++) {
      term *= x / (0.5 + n);
      total += term;
    }
    return 1 - front * total;
  }
  let b = x + 0.5;
  let c = 1e300;
  let d = 1 / b;
  let total = d;
  for (let i = 1; i <= 10_000; i++) {
    const an = -i * (i - 0.5);
    b += 2;
    d = 1 / (an * d + b);
    c = b + an / c;
    total *= d * c;
    if (Math.abs(d * c - 1) < 1e-16) break;
  }
  return front * total;
}

/** P(T ≤ t) of Student's distribution with `freedom` degrees. */
export function studentCdf(t: number, freedom: number): number {
  const tail = 0.5 * incompleteBeta(freedom / 2, 0.5, freedom / (freedom + t * t));
  return t < 0 ? tail : 1 - tail;
}

/** The z with P(Z ≤ z) = p, for p between 0 and 1, exclusive. */
export function normalQuantile(p: number): number {
  return quantile(p, normalCdf);
}

/** The t with P(T ≤ t) = p, for p between 0 and 1, exclusive. */
export function studentQuantile(p: number, freedom: number): number {
  return quantile(p, (t) => studentCdf(t, freedom));
}

/** Bisection of the lower half, where tails keep their digits; the upper half is its mirror image. */
function quantile(p: number, cdf: (x: number) => number): number {
  if (p === 0.5) return 0;
  if (p > 0.5) return -quantile(1 - p, cdf);
  let low = -1;
  while (cdf(low) > p) low *= 2;
  let high = 0;
  for (;;) {
    const middle = (low + high) / 2;
    if (middle <= low || middle >= high) return middle;
    if (cdf(middle) < p) low = middle;
    else high = middle;
  }
}

/** P(X ≤ k) of n trials that each succeed with chance p. */
export function binomialCdf(k: number, n: number, p: number): number {
  if (k < 0) return 0;
  return k >= n ? 1 : incompleteBeta(n - k, k + 1, 1 - p);
}

/** P(X = k) of n trials that each succeed with chance p, 0 < p < 1. */
export function binomialPoint(k: number, n: number, p: number): number {
  return Math.exp(logGamma(n + 1) - logGamma(k + 1) - logGamma(n - k + 1) + k * Math.log(p) + (n - k) * Math.log1p(-p));
}

/**
 * The number of successes of n trials at the uniform number u, 0 ≤ u < 1: over uniform u it is binomial. The numbers take up the range of u
 * from the likeliest outwards, so that few are looked at, about as many as the standard deviation.
 */
export function binomialAt(u: number, n: number, p: number): number {
  if (n === 0 || p <= 0) return 0;
  if (p >= 1) return n;
  const likeliest = Math.floor((n + 1) * p);
  const odds = p / (1 - p);
  let [low, high] = [likeliest, likeliest];
  let below = binomialPoint(likeliest, n, p);
  let above = below;
  let rest = u - below;
  while (rest >= 0 && (low > 0 || high < n)) {
    if (high < n) {
      above *= ((n - high) / (high + 1)) * odds;
      rest -= above;
      high++;
      if (rest < 0) return high;
    }
    if (low > 0) {
      below *= low / ((n - low + 1) * odds);
      rest -= below;
      low--;
      if (rest < 0) return low;
    }
  }
  return likeliest;
}
