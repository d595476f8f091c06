/** log σ(x) in plain numbers without overflow, for losses over a difference of scores. */
export function logSigmoid(x: number): number {
  return Math.min(x, 0) - Math.log1p(Math.exp(-Math.abs(x)));
}
