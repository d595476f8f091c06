/** Sizes of tables and logs, named as people say them: 10k, 100k, 1m, or the number itself. */
import { TroupeError } from '../errors.ts';

const TIMES = { '': 1, k: 1e3, m: 1e6 } as const;

/** Several with commas between, in the order named; `otherwise` by default. @throws TroupeError `usage` */
export function countsNamed(sizes: string | null, otherwise: readonly number[]): readonly number[] {
  if (sizes === null) return otherwise;
  return sizes.split(',').map((text) => {
    const found = /^(\d+)(k|m)?$/i.exec(text.trim());
    const whole = found ? Number(found[1]) * TIMES[(found[2] ?? '').toLowerCase() as keyof typeof TIMES] : 0;
    if (whole > 0) return whole;
    throw new TroupeError(
      'usage',
      `A size should be a number such as 10k, 100k or 1m, but it is ${JSON.stringify(text)}.`,
    );
  });
}

/** The one that is named. @throws TroupeError `usage` where several are */
export function oneCount(sizes: string | null, otherwise: number, unit: string): number {
  const counts = countsNamed(sizes, [otherwise]);
  if (counts.length === 1) return counts[0]!;
  throw new TroupeError('usage', `This benchmark takes one size at a time (${unit}), got ${counts.length}.`);
}
