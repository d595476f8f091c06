/**
 * Evidence that a mean exceeds a bound, valid however often one looks: the capital of a bettor for whom the game is fair if it does not.
 *
 * Source: Waudby-Smith and Ramdas 2023, "Estimating means of bounded random variables by betting", JRSS B 86 (arXiv:2010.09686),
 * section 4.1: the predictable plug-in bets of equation (23), truncated at half of what could be lost. By Ville's inequality the capital
 * of a fair game ever reaches 1/α with chance at most α.
 */

export type Bettor = {
  /** What the capital is after this value, which lies from 0 to 1. Starts at 1. */
  readonly see: (value: number) => number;
  readonly capital: () => number;
};

/** Bets against "the mean is at most `bound`", bound from 0 to 1, exclusive, meant to end at 1/`alpha`. */
export function bettor(bound: number, alpha: number): Bettor {
  let capital = 1;
  let n = 0;
  let total = 0.5;
  let squares = 0.25;
  return {
    see(value) {
      // What is bet depends on the values before this one alone.
      const variance = squares / (n + 1);
      const time = n + 1;
      const bold = Math.sqrt((2 * Math.log(1 / alpha)) / (variance * time * Math.log(time + 1)));
      capital *= 1 + Math.min(bold, 0.5 / bound) * (value - bound);
      n++;
      total += value;
      squares += (value - total / (n + 1)) ** 2;
      return capital;
    },
    capital: () => capital,
  };
}
