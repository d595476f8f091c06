/** Choosing one token from a row of probabilities: pure, the randomness is handed in. */

export type Draw = { readonly token: number; readonly logprob: number };

/**
 * The token at which the running sum of probabilities passes `uniform`, a number in [0, 1).
 * Rounding can leave the sum short of it; then the last token that has any probability is meant.
 */
export function drawToken(probabilities: Float32Array, at: number, vocabulary: number, uniform: number): Draw {
  let sum = 0;
  let token = -1;
  for (let v = 0; v < vocabulary; v++) {
    const p = probabilities[at + v] as number;
    if (p === 0) continue;
    token = v;
    sum += p;
    if (sum > uniform) break;
  }
  return { token, logprob: Math.log(probabilities[at + token] as number) };
}

/** The most probable token; the first of equals. */
export function greedyToken(probabilities: Float32Array, at: number, vocabulary: number): Draw {
  let token = 0;
  for (let v = 1; v < vocabulary; v++) {
    if ((probabilities[at + v] as number) > (probabilities[at + token] as number)) token = v;
  }
  return { token, logprob: Math.log(probabilities[at + token] as number) };
}
