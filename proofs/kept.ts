/** Clients whose history is written down outside while they send, and what of it must be there in the end. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Db } from '../store/db/pool.ts';
import { judgeAgain } from '../store/evaluate/judging/judge.ts';
import { reconcile } from '../store/log/reconcile.ts';
import { checksum } from '../store/projecting/rebuilding/checksum.ts';
import { rebuild } from '../store/projecting/rebuilding/rebuild.ts';
import { check, type Found, type History } from './history.ts';
import { asAdmin } from './kafka-clients.ts';
import { episodeOf, post, until } from './sending.ts';

export type Check = readonly [what: string, fine: boolean];

const LANES = 4;

export type LoadOptions = {
  /** What the ids of its episodes begin with. */
  readonly name?: string;
  /** How long a lane rests between two requests. */
  readonly restMs?: number;
};

/** Lanes of clients. One that got no acknowledgement sends the same again, or leaves it at that. */
export function startLoad(
  url: string,
  history: History,
  random: () => number,
  { name = 'kept', restMs = 0 }: LoadOptions = {},
) {
  let going = true;
  let acknowledged = 0;
  const send = async (key: string, events: ReturnType<typeof episodeOf>): Promise<boolean> => {
    const end = history.invoke(
      key,
      events.map(({ id }) => id),
    );
    const { status } = await post(url, events);
    end(status === 200 ? 'ok' : 'unknown');
    if (status === 200) acknowledged++;
    if (restMs > 0) await sleep(restMs);
    return status === 200;
  };
  const lane = async (k: number): Promise<void> => {
    for (let n = 0; going; n++) {
      const events = episodeOf(`${name}-${k}-${n}`);
      const key = `e/${name}-${k}-${n}`;
      const cut = 1 + Math.floor(random() * 4);
      for (const part of [events.slice(0, cut), events.slice(cut)]) {
        const again = random() < 0.7;
        while (!(await send(key, part)) && again && going) await sleep(50 + 100 * random());
      }
    }
  };
  const lanes = Promise.all(Array.from({ length: LANES }, (_, k) => lane(k)));
  return {
    acknowledged: () => acknowledged,
    stop: async (): Promise<void> => {
      going = false;
      await lanes;
    },
  };
}

export type Judged = {
  readonly db: Db;
  readonly history: History;
  /** Null on the embedded log. */
  readonly kafka: { readonly address: string; readonly topic: string } | null;
  /** How many of what was done to the system there should have been. */
  readonly kills: number;
};

/** Reads on to the end of the log, and holds what is there against the history. */
export async function judged({ db, history, kafka, kills }: Judged): Promise<Check[]> {
  const topic = async () => {
    if (kafka === null) return undefined;
    const offsets = await asAdmin(kafka.address, (admin) => admin.fetchTopicOffsets(kafka.topic));
    const partitions = offsets.map(({ partition, low, high }) => ({
      partition,
      begin: Number(low),
      end: Number(high),
    }));
    return { name: `kafka:${kafka.topic}`, partitions };
  };
  const began = performance.now();
  const drained = await until(async () => {
    const { tables, topics } = await reconcile(db, await topic());
    return tables.lag === 0 && topics.every(({ lag }) => lag === 0);
  }, 120_000);
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  const { rows } = await db.query<Found>(
    `select id, key, partition, position::float8 as position from troupe.events where source = '/proof'`,
  );
  const verdict = check(history, rows);
  const counts = new Map<string, number>();
  for (const { victim } of history.kills) counts.set(victim, (counts.get(victim) ?? 0) + 1);
  const killed = [...counts].map(([victim, n]) => `${victim} ${n}`).join(', ');
  const { ok, dead_letters } = await reconcile(db, await topic());
  const before = await checksum(db);
  const { events } = await rebuild(db, { judge: judgeAgain });
  const after = await checksum(db);
  const faults = (['lost', 'doubled', 'invented', 'disordered'] as const).flatMap((kind) =>
    verdict[kind].length === 0 ? [] : [`${verdict[kind].length} ${kind}: ${verdict[kind].slice(0, 3).join(' ')}`],
  );
  return [
    [
      `P1, P2: after ${kills} kills (${killed}) all ${verdict.acknowledged} acknowledged events are there once, each key in order${faults.length > 0 ? `; but ${faults.join('; ')}` : ''}`,
      faults.length === 0 && verdict.acknowledged > 200 && history.kills.length === kills,
    ],
    [
      `P3: of ${verdict.unknown} events that nobody acknowledged ${verdict.present} are there, once`,
      verdict.doubled.length === 0,
    ],
    [`at ${Math.round(100 * verdict.inFlight)} % of the kills requests were under way`, verdict.inFlight >= 0.3],
    [
      `P8, P10: read to the end within ${seconds} s, positions without holes, ${dead_letters} dead letters`,
      drained && ok && dead_letters === 0,
    ],
    [
      `P15: tables made again from ${events} events have the same checksums`,
      JSON.stringify(before) === JSON.stringify(after),
    ],
  ];
}
