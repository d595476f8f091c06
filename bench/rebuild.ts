/** `bench rebuild`: every table made again from the log, as `troupe rebuild` does, against the projector that made them the first time. */
import { judgeAgain } from '../store/evaluate/judging/judge.ts';
import { projectAll } from '../store/projecting/projector.ts';
import { rebuild } from '../store/projecting/rebuilding/rebuild.ts';
import type { Bench } from './bench.ts';
import { compared, interleave, type Side } from './harness.ts';
import { startBenchServer } from './server.ts';
import { oneCount } from './sizes.ts';
import { emptyFacts, fillLog, sameTables, sumsOf } from './tables.ts';

const EVENTS = 100_000;

export const bench: Bench = {
  name: 'rebuild',
  about: 'all tables made again from the log and swapped, against live projection of the same events',
  async run({ rounds, scratch, sizes, say }) {
    const events = oneCount(sizes, EVENTS, 'events');
    const server = await startBenchServer(scratch);
    try {
      await fillLog(server.db, events);
      const sums: Record<string, Readonly<Record<string, string>>> = {};
      const side = (name: string, before: () => Promise<unknown>, work: () => Promise<number>): Side => ({
        name,
        round: async (round) => {
          await before();
          const measured = await server.measure(events, async () => {
            const applied = await work();
            if (applied !== events) throw new Error(`${applied} of ${events} events were applied.`);
          });
          if (round === -1 || round === rounds - 1) sums[name] = await sumsOf(server.db);
          return measured;
        },
      });
      const live = side(
        'live',
        () => emptyFacts(server.db),
        () => projectAll(server.db),
      );
      const again = side(
        'rebuild',
        () => server.db.query('checkpoint'),
        async () => (await rebuild(server.db, { judge: judgeAgain })).events,
      );
      for (const one of [live, again]) await one.round(-1);
      const { measured, disturbed } = await interleave([again, live], {
        rounds,
        onRound: (line) => say(`rebuild: ${line}`),
      });
      return [
        compared(
          { case: `${events.toLocaleString('en')} events`, unit: 'events/s', disturbed },
          measured[0]!,
          { what: 'live projection of the same events into empty tables', measured: measured[1]! },
          sameTables(sums.rebuild!, sums.live!),
        ),
      ];
    } finally {
      await server.close();
    }
  },
};
