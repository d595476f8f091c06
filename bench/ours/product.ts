/** The ceiling of training: one large matrix product by the same runtime, nothing around it. */

import { input, linear } from '../../trainer/tensor/operations.ts';
import { type Feed, openSession, type Session } from '../../trainer/tensor/session.ts';
import { serve, timed } from './lines.ts';

/** Large enough to run at the peak, small enough that one takes milliseconds. */
const SIZE = 1024;

let session: Session | null = null;
const matrix = (): Feed => ({
  shape: [SIZE, SIZE],
  data: Float32Array.from({ length: SIZE * SIZE }, (_, i) => ((i * 7) % 13) / 13 - 0.5),
});
const feeds = { a: matrix(), b: matrix() };
const product = matrix();

await serve({
  async open({ threads }: { threads: number }) {
    const side = [SIZE, SIZE];
    session = await openSession({ product: linear(input('a', side), input('b', side)) }, { threads });
  },

  /** So many products; the answer counts a multiplication and an addition as two operations. */
  async products({ times }: { times: number }) {
    const [, spent] = await timed(async () => {
      for (let i = 0; i < times; i++) await session!.run(feeds, { product });
    });
    return { operations: times * 2 * SIZE ** 3, ...spent };
  },
});
await (session as Session | null)?.close();
